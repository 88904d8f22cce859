/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A ring of ten messages per rank, an allreduce, a grid that may be reordered, and marks. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
  char buffer[1000] = {0};
  int rank;
  int size;
  int periodic = 0;
  int one = 1;
  int sum = 0;
  MPI_Comm grid;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < 10; ++i) {
    MPI_Pcontrol(1 + i % 2, "name", 2.5, 1, 1, 1, 1, 1, 1, 1, 1);
    if (rank % 2 == 0)
      MPI_Send(buffer, 1000, MPI_CHAR, (rank + 1) % size, 0, MPI_COMM_WORLD);
    MPI_Recv(buffer, 1000, MPI_CHAR, (rank + size - 1) % size, 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    if (rank % 2 != 0)
      MPI_Send(buffer, 1000, MPI_CHAR, (rank + 1) % size, 0, MPI_COMM_WORLD);
  }
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 1, &grid);
  MPI_Comm_free(&grid);
  if (rank == 0)
    printf("sum %d\n", sum);
  MPI_Finalize();
  return 0;
}
