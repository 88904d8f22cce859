/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the examples share beside the device: numbers of the command line, and the printed time. */
#ifndef TOPOSEAT_EXAMPLES_RUN_H
#define TOPOSEAT_EXAMPLES_RUN_H

#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static inline _Noreturn void run_fail(const char *message) {
  fprintf(stderr, "%s\n", message);
  MPI_Abort(MPI_COMM_WORLD, 2);
  abort(); /* MPI's header does not say that it does not return */
}

/* A number from 1 to 2^30, or the usage. */
static inline int run_number(const char *text, const char *usage) {
  char *end;
  errno = 0;
  long value = strtol(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || value < 1 || value > 1 << 30)
    run_fail(usage);
  return (int)value;
}

/* Rank 0 prints what an iteration took the slowest rank. */
static inline void run_print_time(const char *program, double seconds, int iterations) {
  double slowest = 0;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0)
    printf("%s: %d iterations, %.6f s, %.9f s per iteration (slowest rank)\n", program, iterations,
           slowest, slowest / iterations);
}

/* Rank 0 prints whether all ranks' results are right; wrong ones end the job with 1. */
static inline void run_verdict(const char *program, int right) {
  int all = 0;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Allreduce(&right, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (rank == 0)
    printf("%s: %s\n", program, all ? "verified" : "WRONG RESULT");
  fflush(stdout);
  if (!all)
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#endif
