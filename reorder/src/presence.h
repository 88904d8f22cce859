/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Whether every rank of MPI_COMM_WORLD has this library, learned without MPI: a collective that
 * some rank does not call would wait for ever. The library may be missing in some ranks (a script
 * that drops LD_PRELOAD, a static or set-uid program, a call that was looked up by dlsym), and who
 * lacks it says nothing.
 *
 * The processes that have it meet on their node (launcher/src/meeting_point.h), each tells its
 * rank, and one of them decides: yes, if it has heard every rank of the world. Where the job has
 * several nodes, their leaders pass the ranks on to home (launcher/src/home.h), which decides in
 * their place. A rank speaks once and obeys whom it told, so there is one decision: who says yes
 * has heard all, and all wait for it. Whatever goes wrong is a no.
 */
#ifndef TOPOSEAT_PRESENCE_H
#define TOPOSEAT_PRESENCE_H

#include <stdbool.h>
#include <stddef.h>

struct tpr_world {
  int rank;
  int size;
  bool spawned; /* by MPI_Comm_spawn */
};

/*
 * Called by each process of a world of several ranks when MPI_Init has returned. The same answer
 * for all of them: at once where all are there; else after ten seconds, or as long as home waits.
 * Where it is no, `why` tells the cause, and is empty where another rank tells it.
 */
bool tpr__all_present(const struct tpr_world *world, char *why, size_t size);

#endif
