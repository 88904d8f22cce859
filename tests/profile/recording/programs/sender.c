/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sends BYTES to the next rank. */
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  static char out[1000], in[1000];
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Sendrecv(out, atoi(argv[1]), MPI_BYTE, (rank + 1) % size, 0, in, 1000, MPI_BYTE,
               (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Finalize();
  return argc != 2;
}
