/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * opened LIBMPI [deep]: not linked to MPI. Opens it for itself alone, as Julia does, takes every
 * call from dlsym and sends from four threads: 16 messages of 10 doubles each to the next rank, by
 * MPI_Send, or by MPI_Isend in the odd threads; then an allreduce of 3 doubles.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define MESSAGES 16
#define COUNT 10

static void *library;
static MPI_Comm world;
static MPI_Datatype type;
static MPI_Op sum;
static int rank, size, several;

static void *need(const char *name) {
  void *found = dlsym(library, name);
  if (found == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return found;
}

#define LOOK_UP(name)                                                                              \
  __typeof__(&name) my_##name;                                                                     \
  {                                                                                                \
    void *found = need(#name);                                                                     \
    memcpy(&my_##name, &found, sizeof found);                                                      \
  }

static void constants(void) {
#ifdef OPEN_MPI
  world = need("ompi_mpi_comm_world");
  type = need("ompi_mpi_double");
  sum = need("ompi_mpi_op_sum");
#else
  world = MPI_COMM_WORLD;
  type = MPI_DOUBLE;
  sum = MPI_SUM;
#endif
}

static void *work(void *argument) {
  long thread = (long)argument;
  double out[COUNT] = {0}, in[COUNT];
  int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  for (int i = 0; i < MESSAGES; ++i) {
    MPI_Request requests[2];
    LOOK_UP(MPI_Irecv)
    LOOK_UP(MPI_Wait)
    my_MPI_Irecv(in, COUNT, type, previous, (int)thread, world, &requests[0]);
    if (thread % 2 == 0) {
      LOOK_UP(MPI_Send)
      my_MPI_Send(out, COUNT, type, next, (int)thread, world);
    } else {
      LOOK_UP(MPI_Isend)
      my_MPI_Isend(out, COUNT, type, next, (int)thread, world, &requests[1]);
      my_MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    }
    my_MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  }
  return NULL;
}

int main(int argc, char **argv) {
  int provided = 0, deep = argc > 2 ? RTLD_DEEPBIND : 0;
  double values[3] = {0}, sums[3];
  pthread_t threads[THREADS];
  library = argc > 1 ? dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL | deep) : NULL;
  if (library == NULL) {
    fprintf(stderr, "%s\n", argc > 1 ? dlerror() : "no LIBMPI");
    return 1;
  }
  constants();
  LOOK_UP(MPI_Init_thread)
  LOOK_UP(MPI_Comm_rank)
  LOOK_UP(MPI_Comm_size)
  LOOK_UP(MPI_Allreduce)
  LOOK_UP(MPI_Finalize)
  my_MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  several = provided == MPI_THREAD_MULTIPLE;
  my_MPI_Comm_rank(world, &rank);
  my_MPI_Comm_size(world, &size);
  for (long t = 0; t < THREADS; ++t) {
    if (pthread_create(&threads[t], NULL, work, (void *)t) != 0)
      return 1;
    if (!several) /* one after the other */
      pthread_join(threads[t], NULL);
  }
  for (int t = 0; t < THREADS && several; ++t)
    pthread_join(threads[t], NULL);
  my_MPI_Allreduce(values, sums, 3, type, sum, world);
  my_MPI_Finalize();
  return 0;
}
