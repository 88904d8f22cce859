/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * devices LIBRARY: threads send from memory of a stand-in GPU driver that each of them allocates
 * and frees all the time; kept answers of the others must not survive. Every message must be
 * counted in the right space.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin_mpi.h"
#include "totals.h"

#define THREADS 8
#define ROUNDS 300
#define PAGE 4096

int cuMemFree_v2(uintptr_t pointer); /* the interposer's */

static int (*declare)(void *, size_t, int, char);
static char *memory;

static void *work(void *argument) {
  long thread = (long)argument;
  char *own = memory + thread * PAGE;
  MPI_Request request;
  for (int round = 0; round < ROUNDS; ++round) {
    if (declare(own, PAGE, (int)thread % 3, 'd') != 0)
      abort();
    cuMemFree_v2(
        0); /* allocating is not seen: this drops the answer that the page is no device's */
    MPI_Send(own, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
    MPI_Isend(own, 2, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, NULL);
    if (cuMemFree_v2((uintptr_t)own) != 0)
      abort();
    MPI_Send(own, 3, MPI_DOUBLE, 2, 0, MPI_COMM_WORLD);
  }
  return NULL;
}

static void check(const struct totals *totals) {
  const uint64_t n = THREADS * ROUNDS;
  uint64_t uses = 0;
  uint64_t bytes = 0;
  for (int i = 0; i < (int)TPS_MAX_DEVICES; ++i) {
    uses += totals->device_uses[i];
    bytes += totals->device_bytes[i];
  }
  expect("from device memory", totals->messages[TPS_POINT_TO_POINT][TPS_DEVICE][0], n);
  expect("nonblocking", totals->bytes[TPS_POINT_TO_POINT][TPS_DEVICE][1], 16 * n);
  expect("after freeing", totals->messages[TPS_POINT_TO_POINT][TPS_HOST][2], n);
  expect("completions", totals->calls[TPS_TIME_COMPLETION][TPS_DEVICE], n);
  expect("uses of devices", uses, 2 * n);
  expect("bytes of devices", bytes, 24 * n);
  expect("lost", totals->lost, 0);
}

int main(int argc, char **argv) {
  int provided = 0;
  pthread_t threads[THREADS];
  char folder[] = "/tmp/toposeat-devices-XXXXXX";
  void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
  memory = aligned_alloc(PAGE, THREADS * PAGE);
  if (library == NULL || memory == NULL || mkdtemp(folder) == NULL ||
      setenv("TOPOSEAT_PROFILE_DIR", folder, 1) != 0)
    return 1;
  void *found = dlsym(library, "fake_gpu_declare");
  memcpy(&declare, &found, sizeof declare);
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  for (long t = 0; t < THREADS; ++t)
    if (pthread_create(&threads[t], NULL, work, (void *)t) != 0)
      abort();
  for (int t = 0; t < THREADS; ++t)
    pthread_join(threads[t], NULL);
  MPI_Finalize();
  struct totals totals = totals_of(folder);
  check(&totals);
  free(memory);
  printf("exact\n");
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}
