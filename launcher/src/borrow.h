/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The lent devices of a rank (`toposeat borrow`): how its program is told of them.

   TOPOSEAT_BORROW holds the devices and, behind a bar, who gets which of them, by their numbers:

       HOST,SOCKET,ADDRESS:PORT,INDEX ...|HOST=NUMBER+NUMBER;NUMBER ...|JOB

   SOCKET and ADDRESS:PORT may be empty, HOST of a row of seats is "*" where it is not known. Seats
   stand in the order of ranks, JOB tells this job from others. A rank takes its own seat where that
   is on its host, or anywhere. The ranks of a host whose own seats are elsewhere take the seats of
   the host that are left, in the order of ranks, for which the ranks of the host meet. A seat of a
   host is taken by ranks of that host alone, and so by one: a rank for which none is left has no
   device. Where the launcher does not tell how many ranks a host has, each takes its own. */
#ifndef TOPOSEAT_LAUNCHER_BORROW_H
#define TOPOSEAT_LAUNCHER_BORROW_H

#include "environment.h"
#include "identity.h"
#include "message.h"
#include "options.h"

/* Points the OpenCL loader to the library that `options->borrow` names and tells that of the rank's
   devices. What is missing is warned of: the program then finds no device, or fewer. */
void tps_borrow_plan(struct tps_environment *environment, const struct tps_identity *identity,
                     const struct tps_options *options, struct tps_messages *messages);

#endif
