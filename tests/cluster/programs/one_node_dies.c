/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The ranks of tb2 are killed, the others end without MPI_Finalize, which would wait for them. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
  char host[64] = "";
  MPI_Init(&argc, &argv);
  MPI_Barrier(MPI_COMM_WORLD);
  gethostname(host, sizeof host - 1);
  if (strcmp(host, "tb2") == 0)
    kill(getpid(), SIGKILL);
  exit(0);
}
