/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * lookups MPI OTHER-MPI ASKING: a program that opens its MPI for itself alone and takes each call
 * from dlsym, in several threads at once. Every message must be counted, and every other lookup
 * must answer as without the interposer.
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

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define DEEPBIND 0 /* sanitizers end a program that asks for it */
#else
#define DEEPBIND RTLD_DEEPBIND
#endif

static void *mpi;

static void *need(void *library, const char *name) {
  void *found = dlsym(library, name);
  const char *error = dlerror();
  if (found == NULL || error != NULL) {
    fprintf(stderr, "%s: %s\n", name, error != NULL ? error : "not found");
    exit(1);
  }
  return found;
}

#define LOOK_UP(type, variable, library, name)                                                     \
  type *variable;                                                                                  \
  {                                                                                                \
    void *found = need(library, name);                                                             \
    memcpy(&variable, &found, sizeof found);                                                       \
  }

typedef int init_call(int *, char ***, int, int *);
typedef int finalize_call(void);
typedef int send_call(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int number_call(void);
typedef void *address_call(void);

static void *work(void *unused) {
  (void)unused;
  MPI_Comm world = need(mpi, "ompi_mpi_comm_world");
  MPI_Datatype type = need(mpi, "standin_double");
  double buffer[4] = {0};
  for (int round = 0; round < ROUNDS; ++round) {
    LOOK_UP(send_call, send, mpi, "MPI_Send")
    LOOK_UP(send_call, unseen, mpi, "PMPI_Send")
    if (send(buffer, 2, type, 3, 0, world) != 0 || unseen(buffer, 4, type, 4, 0, world) != 0)
      abort();
  }
  return NULL;
}

static const char *file_of(const void *address) {
  Dl_info info;
  return dladdr(address, &info) != 0 ? info.dli_fname : "";
}

static void *open_library(const char *file) {
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL | DEEPBIND);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return library;
}

static uint64_t is_in(const void *address, const char *file) {
  return strcmp(file_of(address), file) == 0;
}

/* The function at `address` says who it is. */
static uint64_t call(void *address) {
  number_call *number;
  memcpy(&number, &address, sizeof address);
  return address != NULL ? (uint64_t)number() : 0;
}

static void check_callers(void *asking) {
  LOOK_UP(address_call, ask_default, asking, "ask_default")
  LOOK_UP(address_call, ask_next, asking, "ask_next")
  expect("RTLD_DEFAULT begins where its caller does", call(ask_default()), 1);
  expect("RTLD_NEXT goes on behind its caller", call(ask_next()), 2);
  expect("MPI is not in the scope of others", dlsym(asking, "MPI_Send") == NULL, 1);
}

static void check_other_lookups(const char *file, const char *other_file) {
  void *other = open_library(other_file);
  expect("MPI_Send", is_in(need(mpi, "MPI_Send"), file), 0);
  expect("PMPI_Send", is_in(need(mpi, "PMPI_Send"), file), 1);
  expect("another MPI's", is_in(need(other, "MPI_Send"), other_file), 1);
  expect("a call that this MPI lacks", dlsym(mpi, "MPI_Send_c") == NULL, 1);
  expect("no such call", dlsym(mpi, "MPI_Nothing") == NULL, 1);
  const char *error = dlerror();
  expect("dlerror names it", error != NULL && strstr(error, "MPI_Nothing") != NULL, 1);
  setenv("TOPOSEAT_PROFILE_DLSYM", "0", 1);
  expect("switched off", is_in(need(mpi, "MPI_Send"), file), 1);
}

int main(int argc, char **argv) {
  int provided = 0;
  pthread_t threads[THREADS];
  char folder[] = "/tmp/toposeat-lookups-XXXXXX";
  if (argc < 4 || mkdtemp(folder) == NULL || setenv("TOPOSEAT_PROFILE_DIR", folder, 1) != 0)
    return 1;
  mpi = open_library(argv[1]);
  LOOK_UP(init_call, init, mpi, "MPI_Init_thread")
  init(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  for (int t = 0; t < THREADS; ++t)
    if (pthread_create(&threads[t], NULL, work, NULL) != 0)
      abort();
  for (int t = 0; t < THREADS; ++t)
    pthread_join(threads[t], NULL);
  LOOK_UP(finalize_call, finalize, mpi, "MPI_Finalize")
  finalize();
  struct totals totals = totals_of(folder);
  const uint64_t n = THREADS * ROUNDS;
  expect("messages", totals.messages[TPS_POINT_TO_POINT][TPS_HOST][3], n);
  expect("bytes", totals.bytes[TPS_POINT_TO_POINT][TPS_HOST][3], 16 * n);
  expect("by PMPI", totals.messages[TPS_POINT_TO_POINT][TPS_HOST][4], 0);
  expect("lost", totals.lost, 0);
  expect("finalised", totals.state, TPS_STATE_FINALIZED);
  check_other_lookups(argv[1], argv[2]);
  check_callers(open_library(argv[3]));
  printf("exact\n");
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}
