/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * MPI without MPI_Init. The record begins with the first session and ends with the last one; its
 * world is the process set mpi://WORLD, which has the ranks of MPI_COMM_WORLD. A session that is
 * opened after the last one was closed goes on with the same record.
 */
#include <pthread.h>

#include "count.h"

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

void tps__world_model_begin(void) {
  __atomic_store_n(&world_model_begun, true, __ATOMIC_RELAXED);
  tps__attach();
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

/* How many are open now. */
static int add(abi_handle session) {
  pthread_mutex_lock(&mutex);
  if (open_sessions < MAX_SESSIONS)
    sessions[open_sessions++] = session;
  int count = open_sessions;
  __atomic_store_n(&any_session, true, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&mutex);
  return count;
}

/* How many are left; `*first`: whether it was the one that the world's group is from. */
static int drop(abi_handle session, bool *first) {
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

/* Another thread may open the next session while this one closes the last. */
static void record_state(void) {
  if (!tps__recording() || tps__world_model())
    return;
  pthread_mutex_lock(&mutex);
  tps__finish(open_sessions > 0 ? TPS_STATE_RUNNING : TPS_STATE_FINALIZED);
  pthread_mutex_unlock(&mutex);
}

void tps__session_begin(abi_handle session) {
  tps__thread.depth += 1; /* what is asked of MPI here is not the application's doing */
  int count = add(session);
  if (!tps__recording())
    tps__attach();
  else if (count == 1 && !tps__world_model())
    tps__comm_renew();
  record_state();
  tps__thread.depth -= 1;
}

void tps__session_end(abi_handle session) {
  bool first = false;
  tps__thread.depth += 1;
  int left = drop(session, &first);
  if (tps__recording() && !tps__world_model()) {
    if (first)
      tps__comm_renew();
    if (left == 0)
      tps__end_of_run();
  }
  tps__thread.depth -= 1;
}

void tps__session_ended(void) {
  tps__thread.depth += 1;
  record_state();
  tps__thread.depth -= 1;
}

bool tps__world_model_end(void) {
  pthread_mutex_lock(&mutex);
  bool last = open_sessions == 0;
  pthread_mutex_unlock(&mutex);
  if (last)
    return true;
  __atomic_store_n(&world_model_ends, true, __ATOMIC_RELAXED);
  if (tps__recording())
    tps__comm_renew();
  return false;
}
