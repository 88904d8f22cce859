/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Each of two such jobs waits for a file that the other makes. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
  char buffer[1000] = {0};
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Sendrecv_replace(buffer, 1000, MPI_BYTE, 1 - rank, 0, 1 - rank, 0, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE);
  if (argc > 2) {
    fclose(fopen(argv[1], "w"));
    while (access(argv[2], F_OK) != 0)
      usleep(1000);
  }
  MPI_Finalize();
}
