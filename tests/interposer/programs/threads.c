/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Four threads a rank send at once, each to its own peer and a common one. Argument: messages. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4

static int rank, size, messages;

static void *work(void *argument) {
  int tag = (int)(long)argument;
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  char out[64] = {0}, in[64];
  MPI_Comm mine;
  /* MPI_COMM_SELF may be duplicated by threads at will: communicators come and go meanwhile. */
  for (int i = 0; i < messages; ++i) {
    MPI_Sendrecv(out, 1 + tag, MPI_BYTE, right, tag, in, 64, MPI_BYTE, left, tag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (i % 16 == 0 && tag == 0) {
      MPI_Comm_dup(MPI_COMM_SELF, &mine);
      MPI_Sendrecv(out, 5, MPI_BYTE, 0, tag, in, 64, MPI_BYTE, 0, tag, mine, MPI_STATUS_IGNORE);
      MPI_Comm_free(&mine);
    }
  }
  return NULL;
}

int main(int argc, char **argv) {
  int provided;
  pthread_t threads[THREADS];
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  messages = argc > 1 ? atoi(argv[1]) : 100;
  if (provided == MPI_THREAD_MULTIPLE) {
    for (long t = 0; t < THREADS; ++t)
      pthread_create(&threads[t], NULL, work, (void *)t);
    for (int t = 0; t < THREADS; ++t)
      pthread_join(threads[t], NULL);
  }
  if (rank == 0)
    printf("%s\n", provided == MPI_THREAD_MULTIPLE ? "multiple" : "less");
  MPI_Finalize();
  return 0;
}
