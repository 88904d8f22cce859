/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which line of the placement is this rank's, and whether the job is the one it was made for. */
#ifndef TOPOSEAT_LAUNCHER_SEATING_H
#define TOPOSEAT_LAUNCHER_SEATING_H

#include "identity.h"
#include "meeting.h"
#include "options.h"
#include "placement.h"

/* The seat of this rank, or NULL with a refusal: nothing of the placement may be applied then.
   Completes the identity (rank from the local rank, local rank from `meeting`, else from one
   for that alone) where it has gaps. `meeting` is NULL where the ranks of the node have not met. */
const struct tps_seat *tps_seating_find(const struct tps_placement *placement,
                                        struct tps_identity *identity, enum tps_mode mode,
                                        const struct tps_meeting *meeting,
                                        struct tps_messages *messages);

/* Whether this node is the placement's `host`: by its own name where the placement has that for any
   rank, else by what the launcher calls it, which may be the name of another node. */
bool tps_seating_is_here(const struct tps_placement *placement, const struct tps_identity *identity,
                         const char *host);

/* Whose device each local rank of the node of `seat` is to have, as the launcher numbers local
   ranks; NULL where the placement tells that, or where it cannot be known. The caller frees it;
   there are `meeting->neighbour_count`. */
const struct tps_seat **tps_seating_locals(const struct tps_placement *placement,
                                           const struct tps_seat *seat,
                                           const struct tps_meeting *meeting);

#endif
