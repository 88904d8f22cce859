/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Events: marks in streams, and the moments at which they were reached. */
#include <stdlib.h>

#include "queue.h"
#include "say.h"

static CUevent events; /* all of this process */

static bool event_lives(CUevent wanted) {
  for (CUevent event = events; event; event = event->next)
    if (event == wanted)
      return true;
  return false;
}

EMU_EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags) {
  EMU_NEEDS_INIT();
  if (!event || (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
    return CUDA_ERROR_INVALID_VALUE;
  if (flags & CU_EVENT_INTERPROCESS)
    return CUDA_ERROR_NOT_SUPPORTED;
  CUevent made = calloc(1, sizeof *made);
  if (!made)
    return CUDA_ERROR_OUT_OF_MEMORY;
  emu_lock();
  made->context = emu_current();
  made->flags = flags;
  if (made->context) {
    made->next = events;
    events = made;
  }
  emu_unlock();
  if (!made->context) {
    free(made);
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  *event = made;
  return CUDA_SUCCESS;
}

static bool event_is_queued(CUevent event) {
  for (CUstream stream = emu_streams; stream; stream = stream->next)
    for (struct task *task = stream->first; task; task = task->next)
      if ((task->kind == TASK_RECORD || task->kind == TASK_WAIT_EVENT) && task->of.event == event)
        return true;
  return false;
}

EMU_EXPORT CUresult cuEventDestroy_v2(CUevent event) {
  EMU_NEEDS_INIT();
  emu_lock();
  const bool lives = event_lives(event);
  bool queued = lives && event_is_queued(event);
  emu_unlock();
  if (!lives)
    return CUDA_ERROR_INVALID_HANDLE;
  if (queued)
    emu_drain_all();
  emu_lock();
  CUevent *at = &events;
  while (*at && *at != event)
    at = &(*at)->next;
  if (*at)
    *at = event->next;
  emu_unlock();
  free(event);
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuEventRecord(CUevent event, CUstream named) {
  EMU_NEEDS_INIT();
  CUstream stream = NULL;
  CUresult result = CUDA_ERROR_INVALID_HANDLE;
  emu_lock();
  if (event_lives(event)) {
    struct task *task = emu_queue(named, TASK_RECORD, &stream, &result);
    if (task) {
      task->of.event = event;
      task->wanted = ++event->recorded;
    }
  }
  return emu_finish(stream, result, false);
}

static bool event_is_done(CUevent event, int64_t now) {
  return event->reached == event->recorded && event->time_ns <= now;
}

EMU_EXPORT CUresult cuEventQuery(CUevent event) {
  EMU_NEEDS_INIT();
  CUresult result = CUDA_ERROR_INVALID_HANDLE;
  emu_lock();
  if (event_lives(event)) {
    (void)emu_progress();
    result = event_is_done(event, emu_now()) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  }
  emu_unlock();
  return result;
}

EMU_EXPORT CUresult cuEventSynchronize(CUevent event) {
  EMU_NEEDS_INIT();
  for (;;) {
    emu_lock();
    const bool lives = event_lives(event);
    int64_t due = lives ? emu_progress() : 0;
    const bool done = lives && event_is_done(event, emu_now());
    if (lives && event->reached == event->recorded && event->time_ns < due)
      due = event->time_ns;
    emu_unlock();
    if (!lives)
      return CUDA_ERROR_INVALID_HANDLE;
    if (done)
      return CUDA_SUCCESS;
    emu_rest_until(due);
  }
}

EMU_EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to) {
  EMU_NEEDS_INIT();
  if (!milliseconds)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_SUCCESS;
  emu_lock();
  if (!event_lives(from) || !event_lives(to) || !from->recorded || !to->recorded ||
      (from->flags | to->flags) & CU_EVENT_DISABLE_TIMING)
    result = CUDA_ERROR_INVALID_HANDLE;
  else {
    (void)emu_progress();
    const int64_t now = emu_now();
    if (!event_is_done(from, now) || !event_is_done(to, now))
      result = CUDA_ERROR_NOT_READY;
    else
      *milliseconds = (float)((double)(to->time_ns - from->time_ns) * 1e-6);
  }
  emu_unlock();
  return result;
}

EMU_EXPORT CUresult cuStreamWaitEvent(CUstream named, CUevent event, unsigned flags) {
  (void)flags;
  EMU_NEEDS_INIT();
  CUstream stream = NULL;
  CUresult result = CUDA_ERROR_INVALID_HANDLE;
  emu_lock();
  if (event_lives(event)) {
    struct task *task = emu_queue(named, TASK_WAIT_EVENT, &stream, &result);
    if (task) {
      task->of.event = event;
      task->wanted = event->recorded;
    }
  }
  return emu_finish(stream, result, false);
}
