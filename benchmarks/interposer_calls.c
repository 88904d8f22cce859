/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cost of MPI calls on one rank: 8-byte Irecv + Isend + Waitall to itself, thread CPU time. */
#define _DEFAULT_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv) {
  int repetitions = argc > 1 ? atoi(argv[1]) : 40;
  int exchanges = argc > 2 ? atoi(argv[2]) : 20000;
  MPI_Init(&argc, &argv);
  double best = 1e30;
  for (int r = 0; r < repetitions; ++r) {
    double start = now_ns();
    for (int i = 0; i < exchanges; ++i) {
      long in = 0;
      long out = i;
      MPI_Request requests[2];
      MPI_Status statuses[2];
      MPI_Irecv(&in, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[0]);
      MPI_Isend(&out, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[1]);
      MPI_Waitall(2, requests, statuses);
    }
    double each = (now_ns() - start) / exchanges;
    best = each < best ? each : best;
  }
  printf("%.3f\n", best);
  MPI_Finalize();
  return 0;
}
