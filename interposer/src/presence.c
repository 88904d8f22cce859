/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Whether MPI is usable: between MPI_Init and MPI_Finalize, or as long as a session is open.
 */
#include <pthread.h>

#include "interposer.h"

#define WORLD_SET "mpi://WORLD"
#define MAX_SESSIONS 64

static abi_handle sessions[MAX_SESSIONS];
static int open_sessions;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* sessions may come from any thread */
static bool any_session;                                  /* was opened, ever */
static bool world_model_begun;
static bool world_model_ends;

/* MPI_Initialized alone does not tell: Intel MPI's is true as soon as a session is open. */
bool tps__world_model(void) {
  int initialised = 0;
  int finalised = 0;
  bool maybe = __atomic_load_n(&world_model_begun, __ATOMIC_RELAXED) ||
               !__atomic_load_n(&any_session, __ATOMIC_RELAXED);
  return maybe && !__atomic_load_n(&world_model_ends, __ATOMIC_RELAXED) &&
         tps__mpi.Initialized(&initialised) == 0 && initialised &&
         tps__mpi.Finalized(&finalised) == 0 && !finalised;
}

void tps__presence_of_world(bool begun) {
  __atomic_store_n(begun ? &world_model_begun : &world_model_ends, true, __ATOMIC_RELAXED);
}

bool tps__world_group(abi_handle *group) {
  if (tps__world_model())
    return tps__mpi.Comm_group(tps__comm_world(), group) == 0;
  pthread_mutex_lock(&mutex);
  bool found = open_sessions > 0 && tps__mpi.Group_from_session_pset != NULL &&
               tps__mpi.Group_from_session_pset(sessions[0], WORLD_SET, group) == 0;
  pthread_mutex_unlock(&mutex);
  return found;
}

int tps__presence_add(abi_handle session) {
  pthread_mutex_lock(&mutex);
  if (open_sessions < MAX_SESSIONS)
    sessions[open_sessions++] = session;
  int count = open_sessions;
  __atomic_store_n(&any_session, true, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&mutex);
  return count;
}

int tps__presence_drop(abi_handle session, bool *first) {
  pthread_mutex_lock(&mutex);
  int place = 0;
  while (place < open_sessions && sessions[place] != session)
    place += 1;
  *first = place == 0 && open_sessions > 0;
  if (place < open_sessions) {
    open_sessions -= 1;
    for (int i = place; i < open_sessions; ++i)
      sessions[i] = sessions[i + 1];
  }
  int count = open_sessions;
  pthread_mutex_unlock(&mutex);
  return count;
}

int tps__presence_count(void) {
  pthread_mutex_lock(&mutex);
  int count = open_sessions;
  pthread_mutex_unlock(&mutex);
  return count;
}

/* Under the mutex: another thread may open the next session while this one closes the last. */
void tps__presence_record(void) {
  pthread_mutex_lock(&mutex);
  tps__record_finish(open_sessions > 0 ? TPS_STATE_RUNNING : TPS_STATE_FINALIZED);
  pthread_mutex_unlock(&mutex);
}
