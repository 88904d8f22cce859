/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The local rank where no launcher tells it: the ranks of a node meet in a file in shared memory.

   The local rank is the number of smaller ranks on the node, as MPI libraries count. It cannot be
   had from the global rank alone: that depends on how the launcher deals ranks to nodes. */
#ifndef TOPOSEAT_LAUNCHER_RENDEZVOUS_H
#define TOPOSEAT_LAUNCHER_RENDEZVOUS_H

#include <stdbool.h>

/* Waits until `expected` ranks of the same job are here, at most `timeout_ms`.
   False if they did not come or nothing tells this job from others on the node. */
bool tps_rendezvous(long rank, long expected, int timeout_ms, long *local_rank);

#endif
