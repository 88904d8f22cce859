/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Makes a row of all ranks and prints the new rank of each old one. With an argument, spawns as
   many ranks, which do the same. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

/* What ranks of Open MPI and of MPICH do while they wait, ten seconds here. */
int nanosleep(const struct timespec *wanted, struct timespec *left) {
  struct timespec least = {.tv_nsec = 2000000};
  return clock_nanosleep(CLOCK_MONOTONIC, 0, wanted->tv_sec > 0 ? wanted : &least, left);
}
int sched_yield(void) { return nanosleep(&(struct timespec){0}, NULL); }

int main(int argc, char **argv) {
  int size;
  int rank;
  int new_rank;
  int period = 0;
  int all[64];
  MPI_Comm row;
  MPI_Comm parent;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_get_parent(&parent);
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &period, 1, &row);
  MPI_Comm_rank(row, &new_rank);
  MPI_Gather(&new_rank, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (int i = 0; rank == 0 && i < size; ++i)
    printf("%s%d%s", i == 0 && parent != MPI_COMM_NULL ? "spawned " : "", all[i],
           i + 1 < size ? " " : "\n");
  fflush(stdout);
  MPI_Comm_free(&row);
  if (argc > 1)
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, size, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &parent,
                   MPI_ERRCODES_IGNORE);
  if (parent != MPI_COMM_NULL) {
    MPI_Barrier(parent);
    MPI_Comm_disconnect(&parent);
  }
  MPI_Finalize();
  return 0;
}
