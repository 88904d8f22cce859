/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * threads COUNT ROUNDS: so many threads call MPI at once, of every kind of call, while
 * communicators and persistent requests come and go and phases change. Afterwards every count must
 * be exact.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "standin_mpi.h"
#include "totals.h"

static int rounds;
static pthread_barrier_t all_here;

/*
 * Every lock orders the threads that take it, and what is ordered is no race: threads that always
 * do the same in turn hide each other's. So they give way at places that differ.
 */
static void give_way(long thread, int round) {
  if ((thread * 7 + round * 3) % 5 == 0)
    sched_yield();
}

static int peer_of(long thread) { return (int)(thread % STANDIN_SIZE); }

/* Waits for files alone, for files and a message, and for a message whose handle was a file's. */
static void files(long thread) {
  double buffer[1] = {0};
  MPI_Request requests[3];
  MPI_File_iwrite(NULL, buffer, 1, MPI_DOUBLE, &requests[0]);
  MPI_File_iwrite(NULL, buffer, 1, MPI_DOUBLE, &requests[1]);
  give_way(thread, 1);
  MPI_Wait(&requests[0], NULL);
  MPI_Irecv(buffer, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, &requests[2]);
  give_way(thread, 2);
  MPI_Waitall(3, requests, NULL);
  MPI_File_iwrite(NULL, buffer, 1, MPI_DOUBLE, &requests[1]);
  give_way(thread, 3);
  MPI_Waitall(2, requests, NULL); /* the other is null by now */
  MPI_File_iwrite(NULL, buffer, 1, MPI_DOUBLE, &requests[0]);
  MPI_Request_free(&requests[0]);
  MPI_Irecv(buffer, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Wait(&requests[0], NULL);
}

static void one_round(long thread, int round) {
  double buffer[4] = {0};
  MPI_Request request;
  MPI_Comm own;
  MPI_Send(buffer, 1 + round % 3, MPI_DOUBLE, peer_of(thread), 0, MPI_COMM_WORLD);
  MPI_Irecv(buffer, 4, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, NULL);
  MPI_Isend(buffer, 2, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, NULL);
  MPI_Put(buffer, 4, MPI_DOUBLE, 2, 0, 4, MPI_DOUBLE, &standin_window);
  MPI_Allreduce(buffer, buffer, 1 + round % 2, MPI_DOUBLE, NULL, MPI_COMM_WORLD);
  give_way(thread, round);
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  give_way(thread, round + 1);
  MPI_Send(buffer, 1, MPI_DOUBLE, 3, 0, own);
  give_way(thread, round + 2);
  MPI_Barrier(own);
  MPI_Comm_free(&own);
  MPI_Send_init(buffer, 3, MPI_DOUBLE, 4, 0, MPI_COMM_WORLD, &request);
  give_way(thread, round + 3);
  for (int start = 0; start < 2; ++start) {
    MPI_Start(&request);
    MPI_Wait(&request, NULL);
  }
  MPI_Request_free(&request);
  files(thread);
  if (thread == 0)
    MPI_Pcontrol(1 + round % 5);
}

static void *work(void *argument) {
  pthread_barrier_wait(&all_here);
  for (int round = 0; round < rounds; ++round)
    one_round((long)argument, round);
  pthread_barrier_wait(&all_here); /* nobody ends, and leaves its segment, before all have one */
  return NULL;
}

static void run_threads(int count) {
  pthread_t *threads = calloc((size_t)count, sizeof *threads);
  pthread_barrier_init(&all_here, NULL, (unsigned)count);
  for (long t = 0; t < count; ++t)
    if (pthread_create(&threads[t], NULL, work, (void *)t) != 0)
      abort();
  for (int t = 0; t < count; ++t)
    pthread_join(threads[t], NULL);
  pthread_barrier_destroy(&all_here);
  free(threads);
}

/* Sums over `count` threads; `waves` times as many in all. */
static void check(const struct totals *totals, int count, int waves) {
  uint64_t n = (uint64_t)count * (uint64_t)rounds * (uint64_t)waves;
  uint64_t thirds = 0;
  uint64_t halves = 0;
  for (int round = 0; round < rounds; ++round) {
    thirds += 1 + (uint64_t)(round % 3);
    halves += 1 + (uint64_t)(round % 2);
  }
  uint64_t messages[STANDIN_SIZE] = {n, 0, 0, n, 2 * n};
  uint64_t bytes[STANDIN_SIZE] = {16 * n, 0, 0, 8 * n, 48 * n};
  for (long t = 0; t < count; ++t) {
    messages[peer_of(t)] += (uint64_t)rounds * (uint64_t)waves;
    bytes[peer_of(t)] += 8 * thirds * (uint64_t)waves;
  }
  for (int peer = 0; peer < STANDIN_SIZE; ++peer) {
    expect("messages", totals->messages[TPS_POINT_TO_POINT][TPS_HOST][peer], messages[peer]);
    expect("bytes", totals->bytes[TPS_POINT_TO_POINT][TPS_HOST][peer], bytes[peer]);
  }
  expect("puts", totals->messages[TPS_ONE_SIDED][TPS_HOST][2], n);
  expect("bytes put", totals->bytes[TPS_ONE_SIDED][TPS_HOST][2], 32 * n);
  expect("collectives", totals->events, 2 * n);
  expect("bytes reduced", totals->event_bytes, 8 * halves * (uint64_t)count * (uint64_t)waves);
  expect("point-to-point calls", totals->calls[TPS_TIME_POINT_TO_POINT][TPS_HOST], 11 * n);
  expect("completions", totals->calls[TPS_TIME_COMPLETION][TPS_HOST], 6 * n);
  expect("files", totals->calls[TPS_TIME_FILE][TPS_HOST], 6 * n);
  expect("collective calls", totals->calls[TPS_TIME_COLLECTIVE][TPS_HOST], 2 * n);
  expect("one-sided calls", totals->calls[TPS_TIME_ONE_SIDED][TPS_HOST], n);
  expect("other calls", totals->calls[TPS_TIME_OTHER][TPS_HOST], 2 * n);
  expect("lost", totals->lost, 0);
  expect("state", totals->state, TPS_STATE_FINALIZED);
}

int main(int argc, char **argv) {
  int provided = 0;
  char folder[] = "/tmp/toposeat-threads-XXXXXX";
  int count = argc > 1 ? atoi(argv[1]) : 8;
  rounds = argc > 2 ? atoi(argv[2]) : 200;
  if (mkdtemp(folder) == NULL || setenv("TOPOSEAT_PROFILE_DIR", folder, 1) != 0)
    return 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  run_threads(count);
  run_threads(count); /* new threads take over the segments of those that ended */
  MPI_Finalize();
  struct totals totals = totals_of(folder);
  check(&totals, count, 2);
  int threads = count < (int)TPS_MAX_THREADS ? count : (int)TPS_MAX_THREADS;
  expect("segments", (uint64_t)totals.segments, (uint64_t)threads + 1);
  printf("%d threads, %d segments: exact\n", 2 * count, totals.segments);
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}
