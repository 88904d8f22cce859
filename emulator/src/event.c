/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Events: marks in streams, and the moments at which they were reached; also between processes. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "queue.h"
#include "say.h"

static CUevent events; /* all of this process */

static bool event_lives(CUevent wanted) {
  for (CUevent event = events; event; event = event->next)
    if (event == wanted)
      return true;
  return false;
}

/* Adds an event of the current context; false without one. Call with the lock held. */
static bool add_event(CUevent event) {
  event->context = emu_current();
  if (event->context) {
    event->next = events;
    events = event;
  }
  return event->context;
}

static bool map_mark(CUevent event, int file) {
  void *mark = mmap(NULL, sizeof *event->mark, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mark == MAP_FAILED)
    return false;
  event->mark = mark;
  event->file = file;
  event->inode = emu_inode(file);
  return true;
}

static void free_event(CUevent event) {
  if (event->mark != &event->own)
    (void)munmap(event->mark, sizeof *event->mark);
  if (event->file >= 0)
    (void)close(event->file);
  free(event);
}

static CUevent new_event(unsigned flags) {
  CUevent made = calloc(1, sizeof *made);
  if (made) {
    made->flags = flags;
    made->mark = &made->own;
    made->file = -1;
  }
  return made;
}

/* An event whose mark lies in a file that other processes can open. */
static bool share(CUevent event) {
  const int file = emu_new_file("toposeat-event", sizeof *event->mark);
  if (file >= 0 && map_mark(event, file))
    return true;
  if (file >= 0)
    (void)close(file);
  return false;
}

EMU_EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags) {
  EMU_NEEDS_INIT();
  if (!event || (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
    return CUDA_ERROR_INVALID_VALUE;
  CUevent made = new_event(flags);
  if (!made)
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (flags & CU_EVENT_INTERPROCESS && !share(made)) {
    free_event(made);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  emu_lock();
  const bool added = add_event(made);
  emu_unlock();
  if (!added) {
    free_event(made);
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
  free_event(event);
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
      task->wanted = atomic_fetch_add(&event->mark->recorded, 1) + 1;
      atomic_store(&event->mark->recorder, (int32_t)getpid());
    }
  }
  return emu_finish(stream, result, false);
}

/* Whether all records that are queued are done by `now`; otherwise when to look again. */
static bool event_is_done(CUevent event, int64_t now, int64_t *due) {
  int64_t time_ns = 0;
  const bool reached = emu_event_is_reached(event, atomic_load(&event->mark->recorded), &time_ns);
  if (reached && time_ns < *due)
    *due = time_ns;
  if (!reached && event->mark != &event->own && now + EMU_LOOK_AGAIN_NS < *due)
    *due = now + EMU_LOOK_AGAIN_NS;
  return reached && time_ns <= now;
}

EMU_EXPORT CUresult cuEventQuery(CUevent event) {
  EMU_NEEDS_INIT();
  CUresult result = CUDA_ERROR_INVALID_HANDLE;
  int64_t due = 0;
  emu_lock();
  if (event_lives(event)) {
    due = emu_progress();
    result = event_is_done(event, emu_now(), &due) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  }
  emu_unlock();
  if (result == CUDA_ERROR_NOT_READY)
    emu_rest_between_questions(due);
  return result;
}

EMU_EXPORT CUresult cuEventSynchronize(CUevent event) {
  EMU_NEEDS_INIT();
  for (;;) {
    emu_lock();
    const bool lives = event_lives(event);
    int64_t due = lives ? emu_progress() : 0;
    const bool done = lives && event_is_done(event, emu_now(), &due);
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
  if (!event_lives(from) || !event_lives(to) || !from->mark->recorded || !to->mark->recorded ||
      (from->flags | to->flags) & CU_EVENT_DISABLE_TIMING)
    result = CUDA_ERROR_INVALID_HANDLE;
  else {
    int64_t due = emu_progress();
    const int64_t now = emu_now();
    if (!event_is_done(from, now, &due) || !event_is_done(to, now, &due))
      result = CUDA_ERROR_NOT_READY;
    else
      *milliseconds = (float)((double)(to->mark->time_ns - from->mark->time_ns) * 1e-6);
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
      task->wanted = atomic_load(&event->mark->recorded);
    }
  }
  return emu_finish(stream, result, false);
}

/* ---- events of other processes */

EMU_EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle *result, CUevent event) {
  EMU_NEEDS_INIT();
  if (!result)
    return CUDA_ERROR_INVALID_VALUE;
  struct emu_handle handle = {.magic = EMU_EVENT_MAGIC, .process = (int32_t)getpid()};
  emu_lock();
  const bool good = event_lives(event) && event->flags & CU_EVENT_INTERPROCESS && !event->imported;
  if (good) {
    handle.file = event->file;
    handle.inode = event->inode;
    handle.physical = event->context->physical;
  }
  emu_unlock();
  if (!good)
    return CUDA_ERROR_INVALID_HANDLE;
  memset(result, 0, sizeof *result);
  memcpy(result, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

static CUresult check_event(const struct emu_handle *handle) {
  if (handle->magic != EMU_EVENT_MAGIC || handle->physical >= emu_driver.machine->devices)
    return CUDA_ERROR_MAP_FAILED;
  return emu_current() && handle->process != (int32_t)getpid() ? CUDA_SUCCESS
                                                               : CUDA_ERROR_INVALID_CONTEXT;
}

EMU_EXPORT CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle given) {
  EMU_NEEDS_INIT();
  if (!event)
    return CUDA_ERROR_INVALID_VALUE;
  struct emu_handle handle;
  memcpy(&handle, &given, sizeof handle);
  const CUresult bad = check_event(&handle);
  if (bad != CUDA_SUCCESS)
    return bad;
  const int file = emu_open_exported(&handle);
  if (file < 0)
    return CUDA_ERROR_INVALID_HANDLE;
  CUevent made = new_event(CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
  if (!made || !map_mark(made, file)) {
    (void)close(file);
    free(made);
    return CUDA_ERROR_MAP_FAILED;
  }
  made->imported = true;
  emu_lock();
  (void)add_event(made); /* the context cannot have gone: it is this thread's */
  emu_unlock();
  *event = made;
  return CUDA_SUCCESS;
}
