/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Rank 0 sends ten doubles to rank 1, by MPI_Send_c where the MPI has that, and both start a
 * persistent barrier. As mpi4py does, it asks by weak references. With MODULE it is a module, which
 * sends where it is named as the argument, and is opened behind MPI_Init.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Counts are MPI_Count, long long in all ABIs. */
extern int MPI_Send_c(const void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm)
    __attribute__((weak));
extern int MPI_Barrier_init(MPI_Comm, MPI_Info, MPI_Request *) __attribute__((weak));

typedef const char *exchange_call(int);
exchange_call exchange;

const char *exchange(int rank) {
  double values[10] = {0};
  MPI_Request request;
  if (rank == 1)
    MPI_Recv(values, 10, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  else if (MPI_Send_c != NULL)
    MPI_Send_c(values, 10, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
  else
    MPI_Send(values, 10, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
  if (MPI_Barrier_init != NULL) {
    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
  }
  return MPI_Send_c != NULL ? "MPI_Send_c" : "MPI_Send";
}

#ifndef MODULE
int main(int count, char **words) {
  int rank;
  exchange_call *call = exchange;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (count > 1) {
    void *module = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
    void *found = module != NULL ? dlsym(module, "exchange") : NULL;
    if (found == NULL)
      return puts(dlerror()) > 0;
    memcpy(&call, &found, sizeof found);
  }
  const char *sent_by = call(rank);
  if (rank == 0)
    printf("%s, barrier %d, session %d\n", sent_by, MPI_Barrier_init != NULL,
           dlsym(RTLD_DEFAULT, "MPI_Session_init") != NULL);
  fflush(stdout);
  MPI_Finalize();
  return 0;
}
#endif
