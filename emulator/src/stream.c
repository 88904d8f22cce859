/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Streams: made, waited for and ended. */
#include <stdlib.h>

#include "queue.h"
#include "say.h"

CUstream emu_new_stream(CUcontext context, unsigned flags) {
  CUstream stream = calloc(1, sizeof *stream);
  if (!stream)
    return NULL;
  stream->context = context;
  stream->flags = flags;
  stream->next = emu_streams;
  emu_streams = stream;
  return stream;
}

/* Nobody waits any longer for a stream that ends. */
static void forget_stream(CUstream stream) {
  for (CUstream other = emu_streams; other; other = other->next)
    for (struct task *task = other->first; task; task = task->next)
      if (task->kind == TASK_WAIT_STREAM && task->of.stream == stream) {
        task->kind = TASK_NOTHING;
        if (task->queued_ns < stream->clock_ns)
          task->queued_ns = stream->clock_ns;
      }
}

static void unlink_stream(CUstream stream) {
  forget_stream(stream);
  CUstream *at = &emu_streams;
  while (*at && *at != stream)
    at = &(*at)->next;
  if (*at)
    *at = stream->next;
  while (stream->first) {
    struct task *task = stream->first;
    stream->first = task->next;
    emu_free_task(task);
  }
  free(stream);
}

void emu_delete_streams(CUcontext context) {
  for (CUstream stream = emu_streams; stream;) {
    CUstream next = stream->next;
    if (stream->context == context)
      unlink_stream(stream);
    stream = next;
  }
}

EMU_EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  EMU_NEEDS_INIT();
  if (!stream || flags > CU_STREAM_NON_BLOCKING)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  CUcontext context = emu_current();
  *stream = context ? emu_new_stream(context, flags) : NULL;
  emu_unlock();
  if (!context)
    return CUDA_ERROR_INVALID_CONTEXT;
  return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EMU_EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
  (void)priority;
  return cuStreamCreate(stream, flags);
}

EMU_EXPORT CUresult cuStreamSynchronize(CUstream named) {
  EMU_NEEDS_INIT();
  emu_lock();
  CUstream stream = emu_resolve_stream(named);
  const bool has_context = emu_current() != NULL;
  emu_unlock();
  if (!stream)
    return has_context ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_CONTEXT;
  emu_wait_for(stream, NULL);
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuStreamQuery(CUstream named) {
  EMU_NEEDS_INIT();
  emu_lock();
  CUstream stream = emu_resolve_stream(named);
  CUresult result = CUDA_ERROR_INVALID_HANDLE;
  int64_t due = 0;
  if (stream) {
    due = emu_progress();
    if (!stream->first && stream->clock_ns < due)
      due = stream->clock_ns;
    result = emu_stream_is_done(stream, emu_now()) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  }
  emu_unlock();
  if (result == CUDA_ERROR_NOT_READY)
    emu_rest_between_questions(due);
  return result;
}

/* Work that is queued is done first; the real driver lets it finish after the call. */
EMU_EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  EMU_NEEDS_INIT();
  emu_lock();
  const bool lives = emu_stream_lives(stream) && stream != stream->context->null_stream;
  emu_unlock();
  if (!lives)
    return CUDA_ERROR_INVALID_HANDLE;
  emu_wait_for(stream, NULL);
  emu_lock();
  unlink_stream(stream);
  emu_unlock();
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuStreamGetCtx(CUstream named, CUcontext *context) {
  EMU_NEEDS_INIT();
  if (!context)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  CUstream stream = emu_resolve_stream(named);
  if (stream)
    *context = stream->context;
  emu_unlock();
  return stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EMU_EXPORT CUresult cuStreamGetFlags(CUstream named, unsigned *flags) {
  EMU_NEEDS_INIT();
  if (!flags)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  CUstream stream = emu_resolve_stream(named);
  if (stream)
    *flags = stream->flags;
  emu_unlock();
  return stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EMU_EXPORT CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data,
                                        unsigned flags) {
  EMU_NEEDS_INIT();
  return callback && !flags ? emu_queue_call(stream, NULL, callback, data)
                            : CUDA_ERROR_INVALID_VALUE;
}

EMU_EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
  EMU_NEEDS_INIT();
  return function ? emu_queue_call(stream, function, NULL, data) : CUDA_ERROR_INVALID_VALUE;
}
