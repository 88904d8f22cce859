/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two ranks of a service: rank 0 says "up" when ten messages of 1000 bytes are at rank 1, and there is no end. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
  int rank = 0;
  char buffer[1000] = {0};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 10; ++i) {
    if (rank == 0)
      MPI_Send(buffer, 1000, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    else
      MPI_Recv(buffer, 1000, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    puts("up");
    (void)fflush(stdout);
  }
  for (;;)
    pause();
}
