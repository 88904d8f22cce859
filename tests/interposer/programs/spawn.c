/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Starts two more processes; rank 0 sends 10 bytes to one of them and broadcasts 4 to both. */
#include <mpi.h>

static void parent(char *program, char *buffer) {
  int rank;
  MPI_Comm children;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_spawn(program, MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                 MPI_ERRCODES_IGNORE);
  if (rank == 0)
    MPI_Send(buffer, 10, MPI_BYTE, 1, 0, children);
  MPI_Bcast(buffer, 4, MPI_BYTE, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, children);
  MPI_Comm_disconnect(&children);
}

static void child(MPI_Comm parents, char *buffer) {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 1)
    MPI_Recv(buffer, 10, MPI_BYTE, 0, 0, parents, MPI_STATUS_IGNORE);
  MPI_Bcast(buffer, 4, MPI_BYTE, 0, parents);
  MPI_Comm_disconnect(&parents);
}

int main(int argc, char **argv) {
  char buffer[16] = {0};
  MPI_Comm parents;
  MPI_Init(&argc, &argv);
  MPI_Comm_get_parent(&parents);
  if (parents == MPI_COMM_NULL)
    parent(argv[0], buffer);
  else
    child(parents, buffer);
  MPI_Finalize();
  return 0;
}
