/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* More shapes of a collective than a record has room for, and as many short-lived communicators. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  int sizes = 8300, copies = 4200; /* the room is 8192 shapes and 4096 communicators */
  MPI_Init(&argc, &argv);
  char *buffer = calloc(1, (size_t)sizes);
  for (int i = 0; i < sizes; ++i)
    MPI_Bcast(buffer, i, MPI_BYTE, 0, MPI_COMM_WORLD);
  for (int i = 0; i < copies; ++i) {
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Barrier(copy);
    MPI_Comm_free(&copy);
  }
  free(buffer);
  MPI_Finalize();
  return 0;
}
