/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which ranks of its node the MPI library of this process takes for neighbours.

   Some launchers tell MPICH a wrong map of the job (Slurm's pmi2 with -m arbitrary): then it shares
   no memory within a node and says nothing. No MPI call tells that but collective ones, which
   nobody may add to a program: a rank that does not take part makes the others hang. So this looks
   at what the process has mapped: MPICH makes one segment of shared memory per node. */
#ifndef TOPOSEAT_LAUNCHER_PROBE_MPI_H
#define TOPOSEAT_LAUNCHER_PROBE_MPI_H

#include "report.h"

/* Adds "mpi", the first line of the library's version, "world", the number of ranks in
   MPI_COMM_WORLD, and for MPICH a "mpich_segment" for each of its segments. Call it before
   MPI_Finalize. `find` tells where a name of the library is, NULL if nowhere. */
void tps_probe_add_mpi(struct tps_report *report, void *(*find)(const char *name));

#endif
