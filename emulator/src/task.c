/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Taking tasks from streams: what each does, and when it is done. */
#include <stdlib.h>
#include <string.h>

#include "queue.h"
#include "say.h"

static const int64_t never = INT64_MAX;

static void fill_bytes(const struct fill *fill) {
  for (uint64_t row = 0; row < fill->rows; ++row) {
    char *at = fill->to.bytes + row * fill->pitch;
    if (fill->value_bytes == 1) {
      memset(at, (int)(fill->value & 0xff), fill->width);
      continue;
    }
    for (uint64_t i = 0; i < fill->width; i += fill->value_bytes)
      memcpy(at + i, &fill->value, fill->value_bytes);
  }
}

static int64_t fill_time(const struct fill *fill) {
  const double bytes = (double)fill->width * (double)fill->rows;
  return fill->to.on_device
             ? (int64_t)(bytes / emu_driver.machine->device[fill->to.physical].copy_bytes_per_ns)
             : 0;
}

/* Runs a host function or kernel without the lock: it may call the driver. */
static void run_call(CUstream stream, const struct call *call) {
  stream->calling = true;
  emu_unlock();
  double seconds = 0;
  const int64_t begin = emu_now();
  if (call->kernel)
    seconds = call->kernel(call->arguments, call->grid, call->block);
  else if (call->function)
    call->function(call->data);
  else
    call->callback(stream, CUDA_SUCCESS, call->data);
  const int64_t taken = emu_now() - begin;
  emu_lock();
  stream->calling = false;
  stream->clock_ns += seconds > 0 ? (int64_t)(seconds * 1e9) : taken;
}

static bool wait_for_event(CUstream stream, const struct task *task, int64_t now, int64_t *due) {
  int64_t reached_ns = 0;
  if (!emu_event_is_reached(task->of.event, task->wanted, &reached_ns)) {
    if (task->of.event->mark != &task->of.event->own) /* nobody here is told of its record */
      *due = now + EMU_LOOK_AGAIN_NS;
    return false;
  }
  if (stream->clock_ns < reached_ns)
    stream->clock_ns = reached_ns;
  return true;
}

/* Takes the first task if its turn has come; otherwise says when to look again. */
static bool take(CUstream stream, int64_t now, int64_t *due) {
  struct task *task = stream->first;
  if (stream->clock_ns < task->queued_ns)
    stream->clock_ns = task->queued_ns;
  switch (task->kind) {
  case TASK_COPY:
    if (!task->begun)
      emu_transfer_begin(&task->of.transfer, stream->clock_ns);
    task->begun = true;
    if (!emu_transfer_advance(&task->of.transfer, now, due))
      return false;
    stream->clock_ns = *due;
    return true;
  case TASK_FILL:
    fill_bytes(&task->of.fill);
    stream->clock_ns += fill_time(&task->of.fill);
    return true;
  case TASK_RECORD:
    emu_event_reach(task->of.event, task->wanted, stream->clock_ns);
    return true;
  case TASK_WAIT_EVENT:
    return wait_for_event(stream, task, now, due);
  case TASK_WAIT_STREAM:
    if (task->of.stream->taken < task->wanted)
      return false;
    if (stream->clock_ns < task->of.stream->clock_ns)
      stream->clock_ns = task->of.stream->clock_ns;
    return true;
  case TASK_CALL:
    if (stream->clock_ns > now) { /* what comes before it must be done, not only under way */
      *due = stream->clock_ns;
      return false;
    }
    run_call(stream, &task->of.call);
    return true;
  case TASK_FREE:
    emu_release(task->of.memory);
    return true;
  case TASK_NOTHING:
    return true;
  }
  return true;
}

void emu_free_task(struct task *task) {
  if (task->kind == TASK_COPY)
    emu_transfer_end(&task->of.transfer);
  if (task->kind == TASK_CALL)
    free((void *)task->of.call.arguments);
  free(task);
}

int64_t emu_take_tasks(bool may_call) {
  int64_t next = never;
  for (bool again = true; again;) {
    again = false;
    next = never;
    for (CUstream stream = emu_streams; stream; stream = stream->next)
      while (stream->first && !stream->calling) {
        int64_t due = never;
        struct task *task = stream->first;
        if (task->kind == TASK_CALL && !may_call)
          break;
        if (!take(stream, emu_now(), &due)) {
          if (due < next)
            next = due;
          break;
        }
        stream->first = task->next;
        if (!stream->first)
          stream->last = NULL;
        ++stream->taken;
        emu_free_task(task);
        again = true;
      }
  }
  return next;
}
