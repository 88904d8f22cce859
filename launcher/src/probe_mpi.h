/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The MPI library of this process, and which ranks of its node it takes for neighbours.

   Some launchers tell MPICH a wrong map of the job (Slurm's pmi2 with -m arbitrary): then it shares
   no memory within a node and says nothing. No MPI call tells that but collective ones, which
   nobody may add to a program: a rank that does not take part makes the others hang. So this looks
   at what the process has mapped: MPICH makes one segment of shared memory per node. */
#ifndef TOPOSEAT_LAUNCHER_PROBE_MPI_H
#define TOPOSEAT_LAUNCHER_PROBE_MPI_H

#include "report.h"

/* What the MPI library that is loaded has under a name, NULL if nothing: from the program on, which
   may hold the library's data itself, by a copy relocation. Not for names that the probe exports. */
void *tps_probe_find_mpi(const char *symbol);
/* The same in the library alone. */
void *tps_probe_find_in_libmpi(const char *symbol);

/* Adds "mpi", the first line of the library's version, "world", the number of ranks in
   MPI_COMM_WORLD, and for MPICH a "mpich_segment" for each of its segments. Call it before
   MPI_Finalize. */
void tps_probe_add_mpi(struct tps_report *report);

#endif
