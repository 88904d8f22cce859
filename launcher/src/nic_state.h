/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Whether a NIC can carry a rank's messages now: libraries abort in MPI_Init over a name that the
   node does not have, and crawl over a link that came up with fewer lanes than its siblings. */
#ifndef TOPOSEAT_LAUNCHER_NIC_STATE_H
#define TOPOSEAT_LAUNCHER_NIC_STATE_H

#include "text.h"

/* `nic` is a device or an interface, with or without ":PORT". If it is not to be used, false and
   why in `cause`. What the kernel does not tell is not held against it. */
bool tps_nic_is_usable(const char *nic, struct tps_text *cause);

#endif
