/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Cost of MPI calls on one rank, thread CPU time, best of so many repetitions:
 *   interposer_calls exchange|null|allreduce|start|ring REPETITIONS CALLS [GPU_RUNTIME]
 * exchange: 8-byte Irecv + Isend + Waitall to itself; null: Send to MPI_PROC_NULL; allreduce: of 8
 * bytes; start: nothing; ring, on any number of ranks: Sendrecv with the neighbours and an
 * Allreduce. Prints nanoseconds per exchange or send, and the resident memory in KiB. With a GPU
 * runtime (the stand-in of the tests), the buffers are declared device memory.
 */
#define _DEFAULT_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long memory[1024] __attribute__((aligned(4096)));

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void exchange(int calls) {
  for (int i = 0; i < calls; ++i) {
    MPI_Request requests[2];
    MPI_Status statuses[2];
    memory[8] = i;
    MPI_Irecv(&memory[0], 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&memory[8], 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
  }
}

static void send_nowhere(int calls) {
  for (int i = 0; i < calls; ++i)
    MPI_Send(&memory[8], 8, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
}

static void allreduce(int calls) {
  for (int i = 0; i < calls; ++i)
    MPI_Allreduce(&memory[0], &memory[8], 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
}

static void ring(int calls) {
  int rank;
  int size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < calls; ++i)
    for (int step = 1; step <= 4; step *= 2)
      MPI_Sendrecv(&memory[0], 8, MPI_BYTE, (rank + step) % size, 0, &memory[8], 8, MPI_BYTE,
                   (rank + size - step % size) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Allreduce(&memory[0], &memory[8], 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
}

static void declare_device(const char *runtime) {
  // The one who runs this names it. NOLINTNEXTLINE(clang-analyzer-optin.taint.GenericTaint)
  void *library = dlopen(runtime, RTLD_NOW | RTLD_GLOBAL);
  int (*declare)(void *, size_t, int, char) = NULL;
  if (library != NULL)
    *(void **)&declare = dlsym(library, "fake_gpu_declare");
  if (declare == NULL || declare(memory, sizeof memory, 0, 'd') != 0)
    exit(1);
}

static long resident_kib(void) {
  char line[256];
  long kib = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, "VmRSS:", 6) == 0)
      kib = strtol(line + 6, NULL, 10);
  if (file != NULL)
    fclose(file);
  return kib;
}

static int positive(const char *text) {
  char *end;
  long number = strtol(text, &end, 10);
  if (end == text || *end != '\0' || number < 1 || number > INT_MAX) {
    fprintf(stderr, "interposer_calls: %s is no number of repetitions or calls\n", text);
    exit(2);
  }
  return (int)number;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "exchange";
  int repetitions = argc > 2 ? positive(argv[2]) : 40;
  int calls = argc > 3 ? positive(argv[3]) : 20000;
  if (argc > 4)
    declare_device(argv[4]);
  MPI_Init(&argc, &argv);
  double best = 0;
  for (int r = 0; r < repetitions && strcmp(what, "start") != 0; ++r) {
    double start = now_ns();
    if (strcmp(what, "null") == 0)
      send_nowhere(calls);
    else if (strcmp(what, "allreduce") == 0)
      allreduce(calls);
    else if (strcmp(what, "ring") == 0)
      ring(calls);
    else
      exchange(calls);
    // Not zero, see positive(). NOLINTNEXTLINE(clang-analyzer-optin.taint.TaintedDiv)
    double each = (now_ns() - start) / calls;
    best = r == 0 || each < best ? each : best;
  }
  printf("%.3f %ld\n", best, resident_kib());
  MPI_Finalize();
  return 0;
}
