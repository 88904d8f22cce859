/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <mpi.h>
int main(int argc, char **argv) {
  char out[3000] = {0}, in[3000];
  int rank, ranks;
  MPI_Request pair[2];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Send_init(out, 3000, MPI_BYTE, (rank + 1) % ranks, 0, MPI_COMM_WORLD, &pair[0]);
  MPI_Recv_init(in, 3000, MPI_BYTE, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, &pair[1]);
  for (int i = 0; i < 4; i++) {
    MPI_Startall(2, pair);
    MPI_Waitall(2, pair, MPI_STATUSES_IGNORE);
  }
  MPI_Win window;
  char *base;
  MPI_Win_allocate(3000, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
  MPI_Win_fence(0, window);
  MPI_Get(in, 300, MPI_BYTE, (rank + 1) % ranks, 0, 300, MPI_BYTE, window);
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
  MPI_Finalize();
  return 0;
}
