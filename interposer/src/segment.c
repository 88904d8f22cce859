/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which segment a thread counts into. Below MPI_THREAD_MULTIPLE all threads use the main segment.
 * Under MPI_THREAD_MULTIPLE every thread takes a segment of its own at its first call and gives it
 * back when it ends; a thread that gets none (too many threads, no space) shares the main segment.
 * While counting is paused, all threads count into a segment that is never read, so that the fast
 * path needs no test for the pause.
 */
#include <pthread.h>

#include "interposer.h"

static struct tps_segment main_segment;
static struct tps_segment sink;
static struct tps_segment of_threads[TPS_MAX_THREADS];
static int made;                   /* how many of them */
static struct tps_segment *unused; /* those whose thread has ended */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t own_key; /* this thread's segment */
static bool has_key;

struct tps_segment *tps__main_segment(void) { return &main_segment; }

/* Runs at the end of a thread. MPI calls of later destructors take a new segment. */
static void give_back(void *own) {
  struct tps_segment *segment = own;
  tps__thread.epoch = TPS_EPOCH_NEVER;
  tps__thread.segment = NULL;
  if (segment->shared)
    return;
  pthread_mutex_lock(&mutex);
  segment->next = unused;
  unused = segment;
  pthread_mutex_unlock(&mutex);
}

bool tps__main_segment_start(const char *directory, int rank, int size) {
  if (!tps__record_start(directory, rank, size) ||
      !tps__segment_create(&main_segment, TPS_MAIN_SEGMENT))
    return false;
  if (tps__process.phase_mode == TPS_PHASES_PCONTROL && !tps__segment_create_sink(&sink))
    sink = main_segment; /* then a pause has no effect */
  main_segment.shared = sink.shared = tps__process.concurrent;
  has_key = tps__process.concurrent && pthread_key_create(&own_key, give_back) == 0;
  tps__process.header = main_segment.header;
  return true;
}

static struct tps_segment *take(void) {
  pthread_mutex_lock(&mutex);
  struct tps_segment *segment = unused;
  if (segment != NULL) {
    unused = segment->next;
  } else if (made < (int)TPS_MAX_THREADS && tps__segment_create(&of_threads[made], made)) {
    segment = &of_threads[made];
    tps__record_publish(segment->header);
    made += 1;
  }
  pthread_mutex_unlock(&mutex);
  return segment != NULL ? segment : &main_segment;
}

static struct tps_segment *own_segment(void) {
  if (!has_key)
    return &main_segment;
  struct tps_segment *own = pthread_getspecific(own_key);
  if (own == NULL) {
    own = take();
    if (pthread_setspecific(own_key, own) != 0 && !own->shared) {
      give_back(own);
      own = &main_segment;
    }
  }
  return own;
}

bool tps__thread_join(void) {
  struct tps_thread *thread = &tps__thread;
  uint64_t epoch = __atomic_load_n(&tps__process.epoch, __ATOMIC_ACQUIRE);
  if (epoch == TPS_EPOCH_CLOSED)
    return false;
  uint32_t phase = __atomic_load_n(&tps__process.phase, __ATOMIC_RELAXED);
  struct tps_segment *segment = phase == TPS_NO_PHASE ? &sink : own_segment();
  if (phase == TPS_NO_PHASE)
    phase = 0;
  thread->segment = segment;
  thread->shared = segment->shared;
  thread->time = segment->phases[phase].time;
  thread->phase_key = (uint64_t)phase << TPS_KEY_PHASE_SHIFT;
  if (thread->calls_until_beat == 0)
    thread->calls_until_beat = tps__process.calls_per_beat;
  thread->epoch = epoch;
  return true;
}
