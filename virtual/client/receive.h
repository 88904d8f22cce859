/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef TOPOSEAT_VIRTUAL_RECEIVE_H
#define TOPOSEAT_VIRTUAL_RECEIVE_H

#include "channel.h"

/* What the proxy says. */
extern const struct tps_hearing tps__hearing;

#endif
