/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef TOPOSEAT_VIRTUAL_MOVE_H
#define TOPOSEAT_VIRTUAL_MOVE_H

#include "link.h"

/* TPS_MOVE, as the proxy said it: in a thread of its own. */
void tps__move(struct tps_link *link, struct tps_cursor *in);

#endif
