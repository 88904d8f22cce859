/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The calls of MPI at which the rank probe looks: exported under MPI's names, they do what is asked
   of them and change nothing. */
#ifndef TOPOSEAT_LAUNCHER_PROBE_CALLS_H
#define TOPOSEAT_LAUNCHER_PROBE_CALLS_H

/* What the MPI library that is loaded has under a name that is not exported here, NULL if nothing.
   From the program on: it may hold the library's data itself, by a copy relocation. */
void *tps_probe_find_mpi(const char *symbol);

/* Called before MPI_Finalize, and after calls that begin MPI or make a communicator. */
void tps_probe_before_finalize(void);
void toposeat_probe_look(const char *when);

#endif
