/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <mpi.h>
int main(int argc, char **argv) {
  char buffer[100] = {0};
  MPI_Init(&argc, &argv);
  for (int rank = 1; rank <= OTHERS; rank++)
    MPI_Send(buffer, 100, MPI_BYTE, rank, 0, MPI_COMM_WORLD);
  MPI_Finalize();
}
