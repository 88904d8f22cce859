/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * churn N: makes, uses and frees N communicators, one after the other, and persistent requests
 * that are freed or not, with 3 bytes to itself by each. Prints by how many KiB its memory grew
 * after the first tenth. The communicators of the first ten are named, and then given back.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long resident_kib(void) {
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1)
    return -1;
  fclose(file);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(int argc, char **argv) {
  char out[4] = "abc", in[4];
  long before = 0;
  MPI_Init(&argc, &argv);
  int rounds = atoi(argv[1]);
  for (int i = 0; i < rounds; ++i) {
    MPI_Comm comm;
    MPI_Request request;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    if (i < 10)
      MPI_Comm_set_name(comm, "short-lived");
    MPI_Irecv(in, 3, MPI_BYTE, 0, 0, comm, &request);
    MPI_Send(out, 3, MPI_BYTE, 0, 0, comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Send_init(out, 3, MPI_BYTE, 0, 0, comm, &request);
    MPI_Request_free(&request);
    MPI_Comm_free(&comm);
    if (i == rounds / 10)
      before = resident_kib();
  }
  printf("%ld\n", resident_kib() - before);
  MPI_Finalize();
  return 0;
}
