/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Says who it is, where it runs and which devices it sees. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
  char host[64] = "";
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  gethostname(host, sizeof host);
  printf("%d %s %s %s\n", rank, argv[1], host, getenv("CUDA_VISIBLE_DEVICES"));
  return MPI_Finalize();
}
