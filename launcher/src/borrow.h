/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The lent devices of a rank (`toposeat borrow`): how its program is told of them.

   TOPOSEAT_BORROW holds the devices and, behind a bar, who gets which of them, by their numbers:

       HOST,SOCKET,ADDRESS:PORT,INDEX ...|HOST=NUMBER+NUMBER;NUMBER ...

   SOCKET and ADDRESS:PORT may be empty, HOST of a row of seats is "*" where it is not known. Seats
   stand in the order of ranks. A process takes the seat of its local rank among those of its host,
   and where its host has none the seat of its rank. */
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
