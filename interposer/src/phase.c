/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Phases, when TOPOSEAT_PROFILE_PHASES asks for them.
 *
 * `pcontrol`: MPI_Pcontrol(n) with n > 0 enters phase n; entering a phase again continues it.
 * MPI_Pcontrol(0) pauses counting until the next call of it. A negative level returns to phase 0,
 * to which everything outside of marked phases belongs. Without `pcontrol` the call is ignored, so
 * that marks meant for another profiler lose no traffic.
 *
 * A number of seconds: windows of that length. A call belongs to the window in which it ended.
 *
 * There are at most TPS_MAX_PHASES phases; the last one holds all further ones, and a flag says so.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"

#define PHASES_VARIABLE "TOPOSEAT_PROFILE_PHASES"
#define MIN_WINDOW_S 0.05 /* windows change with the beat, which comes every 4 to 17 ms */
#define MAX_WINDOW_S 1e9

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t window_ns;
static uint32_t known = 1; /* phases in the table */

void tps__phases_configure(void) {
  static bool said;
  const char *text = getenv(PHASES_VARIABLE);
  if (text == NULL || *text == '\0')
    return;
  if (strcmp(text, "pcontrol") == 0) {
    tps__process.phase_mode = TPS_PHASES_PCONTROL;
    return;
  }
  char *end = NULL;
  double seconds = strtod(text, &end);
  if (*end != '\0' || !(seconds >= MIN_WINDOW_S && seconds <= MAX_WINDOW_S)) {
    if (tps__speaks_for_job())
      tps__warn(&said,
                PHASES_VARIABLE "=%.40s is neither `pcontrol` nor a number of seconds from %g on: "
                                "phases are not recorded",
                text, MIN_WINDOW_S);
    return;
  }
  tps__process.phase_mode = TPS_PHASES_WINDOWS;
  window_ns = (uint64_t)(seconds * 1e9);
}

void tps__phases_start(uint64_t now) {
  struct tps_header *header = tps__process.header;
  struct tps_phase *phase = tps__main_segment()->phases;
  header->phase_mode = tps__process.phase_mode;
  header->window_ns = window_ns;
  header->entered_ticks = now;
  phase->begin_ticks = now;
  phase->used = 1;
}

/* The phase with this label; the last one if there is no room. Under the mutex. */
static uint32_t index_of(int64_t label) {
  struct tps_phase *phases = tps__main_segment()->phases;
  for (uint32_t i = 0; i < known; ++i)
    if (phases[i].label == label)
      return i;
  if (known == TPS_MAX_PHASES) {
    __atomic_fetch_or(&tps__process.header->flags, (uint32_t)TPS_FLAG_PHASES_MERGED,
                      __ATOMIC_RELAXED);
    return known - 1;
  }
  phases[known].label = label;
  return known++;
}

/* Under the mutex. */
static void leave(uint64_t now) {
  struct tps_header *header = tps__process.header;
  if (header->current_phase == TPS_NO_PHASE)
    return;
  struct tps_phase *phase = &tps__main_segment()->phases[header->current_phase];
  phase->end_ticks = now;
  phase->active_ticks += now - header->entered_ticks;
  header->entered_ticks = now;
}

/* Under the mutex. Every thread finds out by the epoch, this one at once. */
static void enter(uint32_t index, uint64_t now) {
  struct tps_header *header = tps__process.header;
  if (index == header->current_phase)
    return;
  leave(now);
  if (index != TPS_NO_PHASE) {
    struct tps_phase *phase = &tps__main_segment()->phases[index];
    if (!phase->used) {
      phase->begin_ticks = now;
      __atomic_store_n(&phase->used, 1u, __ATOMIC_RELEASE);
    }
  }
  header->entered_ticks = now;
  __atomic_store_n(&header->current_phase, index, __ATOMIC_RELEASE);
  __atomic_store_n(&tps__process.phase, index, __ATOMIC_RELAXED);
  __atomic_fetch_add(&tps__process.epoch, 1, __ATOMIC_ACQ_REL);
}

/* Time windows: called with every beat, in a call that has just ended. */
void tps__phases_beat(uint64_t ticks, uint64_t nanoseconds) {
  if (tps__process.phase_mode != TPS_PHASES_WINDOWS)
    return;
  pthread_mutex_lock(&mutex);
  uint64_t since = nanoseconds - tps__process.header->start_ns;
  uint64_t window = since / window_ns;
  if ((int64_t)window > tps__main_segment()->phases[tps__process.header->current_phase].label)
    enter(index_of((int64_t)window), ticks);
  pthread_mutex_unlock(&mutex);
  if (__atomic_load_n(&tps__process.epoch, __ATOMIC_RELAXED) != tps__thread.epoch)
    tps__thread_join();
}

void tps__phases_finish(uint64_t now) {
  pthread_mutex_lock(&mutex);
  leave(now);
  pthread_mutex_unlock(&mutex);
}

TPS_EXPORT int MPI_Pcontrol(int level, ...);
TPS_EXPORT int PMPI_Pcontrol(int level, ...) __attribute__((alias("MPI_Pcontrol")));

/* Further arguments are for profilers that define some; MPI itself looks at none of them. */
int MPI_Pcontrol(int level, ...) {
  typedef int real_call(int, ...);
  static tps_function *found;
  real_call *real = (real_call *)tps__real(&found, "PMPI_Pcontrol");
  if (tps__process.phase_mode == TPS_PHASES_PCONTROL && tps__recording()) {
    uint64_t now = tps__ticks();
    pthread_mutex_lock(&mutex);
    enter(level == 0 ? TPS_NO_PHASE : index_of(level > 0 ? level : 0), now);
    pthread_mutex_unlock(&mutex);
  }
  return real != NULL ? real(level) : 0;
}
