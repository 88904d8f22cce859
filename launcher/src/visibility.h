/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which devices a rank sees and in which order (docs: notes on permute, mask, rotate, cpu-only). */
#ifndef TOPOSEAT_LAUNCHER_VISIBILITY_H
#define TOPOSEAT_LAUNCHER_VISIBILITY_H

#include "device_order.h"

/* Plans the device variables. Where that is not possible it warns and leaves all as they are. */
void tps_visibility_plan(struct tps_visibility *visibility);

#endif
