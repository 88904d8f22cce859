/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <mpi.h>
#include <string.h>
int main(int argc, char **argv) {
  static char bytes[1 << 16];
  int rank;
  MPI_File file;
  MPI_Request request;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  for (int i = 0; i < 50; ++i)
    MPI_File_write_at_all(file, rank * sizeof bytes, bytes, sizeof bytes, MPI_BYTE,
                          MPI_STATUS_IGNORE);
  MPI_File_iwrite_at(file, rank * sizeof bytes, bytes, sizeof bytes, MPI_BYTE, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Isend(bytes, 4, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &request);
  MPI_Recv(bytes, 4, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_File_close(&file);
  MPI_Finalize();
  return 0;
}
