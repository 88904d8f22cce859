/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <mpi.h>
int main(int argc, char **argv) {
  int me, n, sum;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  for (int phase = 1; phase <= 3; ++phase) {
    MPI_Pcontrol(phase % 3 + 1);
    for (int i = 0; i < phase; ++i)
      MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % n, 0, &sum, 1, MPI_INT, (me + n - 1) % n, 0,
                   MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
