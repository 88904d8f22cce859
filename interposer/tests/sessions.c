/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that open and close sessions of their own, without MPI_Init: one record and its state. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "standin_mpi.h"
#include "totals.h"

#define THREADS 4
#define ROUNDS 200

static MPI_Session open_session(void) {
  MPI_Session session = NULL;
  if (MPI_Session_init(NULL, NULL, &session) != 0)
    abort();
  return session;
}

static void *work(void *argument) {
  int peer = (int)(long)argument;
  for (int round = 0; round < ROUNDS; ++round) {
    MPI_Session session = open_session();
    MPI_Comm comm = NULL;
    if (MPI_Comm_dup(MPI_COMM_WORLD, &comm) != 0)
      abort();
    MPI_Send(NULL, 1, MPI_DOUBLE, peer, 0, comm);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
  }
  return NULL;
}

static void run_threads(void) {
  pthread_t threads[THREADS];
  for (long t = 0; t < THREADS; ++t)
    if (pthread_create(&threads[t], NULL, work, (void *)t) != 0)
      abort();
  for (int t = 0; t < THREADS; ++t)
    pthread_join(threads[t], NULL);
}

static void check(const char *folder, uint64_t state, uint64_t messages) {
  struct totals totals = totals_of(folder);
  for (int peer = 0; peer < THREADS; ++peer)
    expect("messages", totals.messages[TPS_POINT_TO_POINT][TPS_HOST][peer], messages);
  expect("lost", totals.lost, 0);
  expect("state", totals.state, state);
}

int main(void) {
  char folder[] = "/tmp/toposeat-sessions-XXXXXX";
  if (mkdtemp(folder) == NULL || setenv("TOPOSEAT_PROFILE_DIR", folder, 1) != 0)
    return 1;
  MPI_Session first = open_session();
  run_threads();
  check(folder, TPS_STATE_RUNNING, ROUNDS); /* `first` is still open */
  MPI_Session_finalize(&first);
  check(folder, TPS_STATE_FINALIZED, ROUNDS);
  first = open_session(); /* goes on with the same record */
  check(folder, TPS_STATE_RUNNING, ROUNDS);
  MPI_Session_finalize(&first);
  run_threads(); /* the last session comes and goes */
  check(folder, TPS_STATE_FINALIZED, 2 * ROUNDS);
  printf("exact\n");
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}
