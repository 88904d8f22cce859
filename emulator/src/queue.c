/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Streams and events: queues of work with a clock of their own.
 *
 * A stream's clock is the moment at which all work taken from its queue will be done. Work is taken
 * as soon as its turn comes; what it occupies is reserved from then on, even if this process looks
 * late: a late look never makes a link slower, only its discovery later. Work is done once the real
 * clock has reached the stream's. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "queue.h"
#include "say.h"

CUstream emu_streams;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static bool worker_runs;
static pthread_mutex_t work_lock = PTHREAD_MUTEX_INITIALIZER;
static bool work_waits;

int64_t emu_progress(void) { return emu_take_tasks(false); }

/* ---- the thread that works while the program does something else */

static const int64_t question_rest_ns = 50000, between_questions_ns = 10000;

static void sleep_until(int64_t when) {
  const struct timespec at = {when / 1000000000, when % 1000000000};
  (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void *work_on(void *nothing) {
  (void)nothing;
  (void)prctl(PR_SET_TIMERSLACK, 1);
  for (;;) {
    (void)pthread_mutex_lock(&work_lock);
    while (!work_waits)
      (void)pthread_cond_wait(&work, &work_lock);
    work_waits = false;
    (void)pthread_mutex_unlock(&work_lock);
    for (;;) {
      emu_lock();
      const int64_t due = emu_take_tasks(true);
      bool left = false;
      for (CUstream stream = emu_streams; stream; stream = stream->next)
        left = left || stream->first;
      emu_unlock();
      if (!left)
        break;
      const int64_t soon = emu_now() + 1000000;
      sleep_until(due < soon ? due : soon);
    }
  }
  return NULL;
}

/* Call with the lock held. */
static void start_worker(void) {
  if (!worker_runs) {
    pthread_t thread;
    worker_runs = pthread_create(&thread, NULL, work_on, NULL) == 0;
    if (worker_runs)
      (void)pthread_detach(thread);
  }
  (void)pthread_mutex_lock(&work_lock);
  work_waits = true;
  (void)pthread_cond_signal(&work);
  (void)pthread_mutex_unlock(&work_lock);
}

/* ---- waiting */

bool emu_stream_is_done(CUstream stream, int64_t now) {
  return !stream->first && !stream->calling && stream->clock_ns <= now;
}

/* Short waits spin, for a sleep takes longer than they do. */
void emu_rest_until(int64_t due) {
  const int64_t now = emu_now();
  const int64_t soon = now + 1000000;
  if (due > now + 60000)
    sleep_until((due < soon ? due : soon) - 50000);
  else if (due <= now)
    sleep_until(now + 20000);
}

/* A program that asks over and over whether work is done gives its core away in between: on a
   stand-in there are more ranks than cores, and the others have messages to answer. */
void emu_rest_between_questions(int64_t due) {
  static _Thread_local int64_t rested_ns;
  const int64_t now = emu_now();
  if (now < rested_ns + between_questions_ns || due < now + 2 * question_rest_ns)
    return;
  sleep_until(now + question_rest_ns);
  rested_ns = emu_now();
}

/* Waits for one stream, or for all of a context, or for all (both NULL). */
void emu_wait_for(CUstream only, CUcontext context) {
  for (;;) {
    emu_lock();
    const int64_t due = emu_progress();
    const int64_t now = emu_now();
    int64_t last = due;
    bool done = true;
    for (CUstream stream = emu_streams; stream; stream = stream->next) {
      if ((only && stream != only) || (context && stream->context != context))
        continue;
      if (emu_stream_is_done(stream, now))
        continue;
      done = false;
      if (!stream->first && stream->clock_ns < last)
        last = stream->clock_ns;
    }
    emu_unlock();
    if (done)
      return;
    emu_rest_until(last);
  }
}

void emu_drain(CUcontext context) { emu_wait_for(NULL, context); }

void emu_drain_all(void) { emu_wait_for(NULL, NULL); }

/* ---- queueing */

bool emu_stream_lives(CUstream wanted) {
  for (CUstream stream = emu_streams; stream; stream = stream->next)
    if (stream == wanted)
      return true;
  return false;
}

/* The stream behind a name; NULL if there is none. */
CUstream emu_resolve_stream(CUstream named) {
  if (named == NULL || named == CU_STREAM_LEGACY || named == CU_STREAM_PER_THREAD) {
    CUcontext context = emu_current();
    return context ? context->null_stream : NULL;
  }
  return emu_stream_lives(named) ? named : NULL;
}

static struct task *append(CUstream stream, enum task_kind kind) {
  struct task *task = calloc(1, sizeof *task);
  if (!task)
    return NULL;
  task->kind = kind;
  task->queued_ns = emu_now();
  if (stream->last)
    stream->last->next = task;
  else
    stream->first = task;
  stream->last = task;
  ++stream->queued;
  return task;
}

/* The null stream waits for the blocking streams of its context, and they for it. */
static void order_streams(CUstream stream) {
  const CUstream null_stream = stream->context->null_stream;
  if (stream->flags & CU_STREAM_NON_BLOCKING)
    return;
  for (CUstream other = emu_streams; other; other = other->next) {
    if (other == stream || other->context != stream->context || !other->first ||
        (other->flags & CU_STREAM_NON_BLOCKING) || (stream != null_stream && other != null_stream))
      continue;
    struct task *task = append(stream, TASK_WAIT_STREAM);
    if (task) {
      task->of.stream = other;
      task->wanted = other->queued;
    }
  }
}

/* A task at the end of a stream, in order with the null stream. Call with the lock held. */
struct task *emu_queue(CUstream named, enum task_kind kind, CUstream *stream, CUresult *result) {
  *stream = emu_resolve_stream(named);
  *result = *stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  if (!*stream && !emu_current())
    *result = CUDA_ERROR_INVALID_CONTEXT;
  if (!*stream)
    return NULL;
  order_streams(*stream);
  struct task *task = append(*stream, kind);
  if (!task)
    *result = CUDA_ERROR_OUT_OF_MEMORY;
  return task;
}

/* Ends a queueing call: unlocks, and waits if the call is a blocking one. */
CUresult emu_finish(CUstream stream, CUresult result, bool wait) {
  if (result == CUDA_SUCCESS) {
    (void)emu_progress();
    if (stream->first && !wait)
      start_worker();
  }
  emu_unlock();
  if (result == CUDA_SUCCESS && wait)
    emu_wait_for(stream, NULL);
  return result;
}

CUresult emu_queue_copy(CUstream named, const struct emu_copy *copy, bool wait) {
  CUstream stream = NULL;
  CUresult result = CUDA_SUCCESS;
  emu_lock();
  struct task *task = emu_queue(named, TASK_COPY, &stream, &result);
  if (task)
    task->of.transfer.copy = *copy;
  return emu_finish(stream, result, wait);
}

CUresult emu_queue_fill(CUstream named, uint64_t to, uint64_t width, uint64_t rows, uint64_t pitch,
                        uint32_t value, unsigned value_bytes, bool wait) {
  CUstream stream = NULL;
  struct fill fill = {
      .width = width, .rows = rows, .pitch = pitch, .value = value, .value_bytes = value_bytes};
  emu_lock();
  CUresult result = emu_resolve(to, rows ? (rows - 1) * pitch + width : 0, &fill.to);
  if (result == CUDA_SUCCESS) {
    struct task *task = emu_queue(named, TASK_FILL, &stream, &result);
    if (task)
      task->of.fill = fill;
  }
  return emu_finish(stream, result, wait);
}

CUresult emu_queue_call(CUstream named, CUhostFn function, CUstreamCallback callback, void *data) {
  CUstream stream = NULL;
  CUresult result = CUDA_SUCCESS;
  emu_lock();
  struct task *task = emu_queue(named, TASK_CALL, &stream, &result);
  if (task) {
    task->of.call = (struct call){.function = function, .callback = callback, .data = data};
    start_worker(); /* never in the calling thread: it may hold what the function waits for */
  }
  emu_unlock();
  return result;
}

CUresult emu_queue_kernel(CUstream named, emu_kernel kernel, void **arguments,
                          const unsigned grid[3], const unsigned block[3]) {
  CUstream stream = NULL;
  CUresult result = CUDA_SUCCESS;
  emu_lock();
  struct task *task = emu_queue(named, TASK_CALL, &stream, &result);
  if (task) {
    task->of.call = (struct call){.kernel = kernel, .arguments = arguments};
    memcpy(task->of.call.grid, grid, 3 * sizeof *grid);
    memcpy(task->of.call.block, block, 3 * sizeof *block);
    start_worker();
  } else
    free((void *)arguments);
  emu_unlock();
  return result;
}
