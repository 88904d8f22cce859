/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What this process had from its devices. */
#ifndef TOPOSEAT_VIRTUAL_REPORT_H
#define TOPOSEAT_VIRTUAL_REPORT_H

#include "device.h"

void tps__measure(struct tps_link *link);
void tps__report(void);

#endif
