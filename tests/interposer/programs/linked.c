/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Rank 0 sends ten doubles to rank 1. */
#include <mpi.h>
int main(void) {
  int rank, size;
  double values[10] = {0};
  MPI_Init(0, 0);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == 0)
    MPI_Send(values, 10, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
  if (rank == 1)
    MPI_Recv(values, 10, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Finalize();
  return 0;
}
