/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which line of the placement is this rank's, and whether the job is the one it was made for. */
#ifndef TOPOSEAT_LAUNCHER_SEATING_H
#define TOPOSEAT_LAUNCHER_SEATING_H

#include "identity.h"
#include "options.h"
#include "placement.h"

/* The seat of this rank, or NULL with a warning: nothing of the placement may be applied then.
   Completes the identity (rank from the local rank, local rank by rendezvous) where it has gaps. */
const struct tps_seat *tps_seating_find(const struct tps_placement *placement,
                                        struct tps_identity *identity, enum tps_mode mode,
                                        struct tps_messages *messages);

#endif
