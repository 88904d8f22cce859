/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Queues, and what every command has: its checks, its wait list, its event. */
#include "command.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "memory.h"
#include "program.h"

/* ---- Queues */

cl_command_queue tps__clCreateCommandQueue(cl_context context, cl_device_id device,
                                           cl_ulong properties, cl_int *errcode_ret) {
  const cl_ulong known = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE;
  if (!tps__is(context, TPS_CONTEXT))
    return tps__fail(errcode_ret, CL_INVALID_CONTEXT);
  if (!tps__is(device, TPS_DEVICE) || !tps__context_has(context, device))
    return tps__fail(errcode_ret, CL_INVALID_DEVICE);
  if ((properties & ~known) != 0)
    return tps__fail(errcode_ret, CL_INVALID_VALUE);
  if ((properties & ~tps__device_number(device, CL_DEVICE_QUEUE_PROPERTIES)) != 0)
    return tps__fail(errcode_ret, CL_INVALID_QUEUE_PROPERTIES);
  struct tps_link *link = context->base.link;
  cl_command_queue queue = tps__object_new(sizeof *queue, TPS_COMMAND_QUEUE, link);
  if (queue == NULL)
    return tps__fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
  queue->context = context;
  queue->device = device;
  queue->properties = properties;
  tps__hold(context);
  struct tps_reply reply;
  struct tps_text *out = tps__begin(link, TPS_CALL_CreateCommandQueue, &reply);
  tps_put(out, queue->base.id);
  tps__put_CreateCommandQueue(out, context, device, properties);
  queue = tps__made(queue, &reply, errcode_ret);
  if (queue == NULL)
    return NULL;
  pthread_mutex_lock(&link->state);
  queue->next = link->queues;
  link->queues = queue;
  pthread_mutex_unlock(&link->state);
  return queue;
}

cl_int tps__about_command_queue(cl_command_queue queue, cl_uint name,
                                const struct tps_answer *answer) {
  switch (name) {
  case CL_QUEUE_CONTEXT:
    return TPS_GIVE(answer, cl_context, queue->context);
  case CL_QUEUE_DEVICE:
    return TPS_GIVE(answer, cl_device_id, queue->device);
  case CL_QUEUE_PROPERTIES:
    return TPS_GIVE(answer, cl_ulong, queue->properties);
  default:
    return TPS_NOT_HERE;
  }
}

cl_int tps__queue_error(cl_command_queue queue) {
  return atomic_load_explicit(&queue->error, memory_order_relaxed) == 0
             ? CL_SUCCESS
             : atomic_exchange(&queue->error, CL_SUCCESS);
}

cl_int tps__clFlush(cl_command_queue queue) {
  if (!tps__is(queue, TPS_COMMAND_QUEUE))
    return CL_INVALID_COMMAND_QUEUE;
  tps__flush(queue->base.link);
  return atomic_load(&queue->base.link->is_dead) ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
}

/* 1 + what was sent that a queue's end may tell something of. */
static unsigned long long number_of(cl_command_queue queue) {
  return 1 + atomic_load(&queue->sent) + atomic_load(&queue->base.link->sets);
}

cl_int tps__clFinish(cl_command_queue queue) {
  if (!tps__is(queue, TPS_COMMAND_QUEUE))
    return CL_INVALID_COMMAND_QUEUE;
  struct tps_link *link = queue->base.link;
  if (atomic_load(&queue->ended) == number_of(queue) && !atomic_load(&link->is_dead))
    return tps__queue_error(queue); /* nothing is under way */
  struct tps_reply reply;
  tps_put(tps__begin(link, TPS_CALL_Finish, &reply), queue->base.id);
  unsigned long long number = number_of(queue);
  cl_int code = tps__done(link, &reply), error = tps__queue_error(queue);
  if (code == 0)
    atomic_store(&queue->ended, number);
  return code != 0 ? code : error;
}

/* ---- Commands */

cl_int tps__command_check(struct tps_command *command) {
  cl_command_queue queue = command->queue;
  if (!tps__is(queue, TPS_COMMAND_QUEUE))
    return CL_INVALID_COMMAND_QUEUE;
  if ((command->waits == 0) != (command->list == NULL))
    return CL_INVALID_EVENT_WAIT_LIST;
  for (cl_uint i = 0; i < command->waits; i++) {
    if (!tps__is(command->list[i], TPS_EVENT))
      return CL_INVALID_EVENT_WAIT_LIST;
    if (command->list[i]->context != queue->context)
      return CL_INVALID_CONTEXT;
  }
  return atomic_load_explicit(&queue->base.link->is_dead, memory_order_relaxed)
             ? CL_OUT_OF_RESOURCES
             : CL_SUCCESS;
}

cl_int tps__same_context(cl_command_queue queue, const void *object, uint32_t kind,
                         cl_int invalid) {
  if (!tps__is(object, kind))
    return invalid;
  cl_context context =
      kind == TPS_MEM_OBJECT ? ((cl_mem)object)->context : ((cl_kernel)object)->program->context;
  return context == queue->context ? CL_SUCCESS : CL_INVALID_CONTEXT;
}

struct tps_text *tps__command_begin(struct tps_command *command, cl_int *code) {
  if (command->made == NULL && (command->event != NULL || command->wants_event)) {
    command->made = tps__event_new(command->queue->context, command->queue, command->type);
    if (command->made == NULL) {
      *code = CL_OUT_OF_HOST_MEMORY;
      return NULL;
    }
  }
  return tps__begin(command->queue->base.link, command->call,
                    tps__is_strict ? &command->reply : NULL);
}

cl_int tps__command_end(struct tps_command *command) {
  struct tps_link *link = command->queue->base.link;
  struct tps_text *out = &link->batch;
  bool is_kept = command->event != NULL || command->is_kept;
  if (command->made != NULL)
    command->made->base.is_local = !is_kept;
  tps_put(out, tps__id(command->made));
  tps_put(out, is_kept); /* whether others may wait for it */
  tps__put_list(out, command->waits, (const void *const *)command->list);
  atomic_fetch_add(&command->queue->sent, 1);
  if (is_kept)
    tps__list(&command->made->base);
  cl_int code = tps__done(link, tps__is_strict ? &command->reply : NULL);
  if (command->event != NULL) {
    if (code == 0)
      *command->event = command->made;
    else
      tps__release(&command->made->base);
  }
  return code;
}

cl_int tps__clEnqueueMarker(cl_command_queue queue, cl_event *event) {
  return event == NULL ? CL_INVALID_VALUE : tps__clEnqueueMarkerWithWaitList(queue, 0, NULL, event);
}

cl_int tps__clEnqueueWaitForEvents(cl_command_queue queue, cl_uint num_events,
                                   const cl_event *event_list) {
  if (!tps__is(queue, TPS_COMMAND_QUEUE))
    return CL_INVALID_COMMAND_QUEUE;
  if (num_events == 0 || event_list == NULL)
    return CL_INVALID_VALUE;
  for (cl_uint i = 0; i < num_events; i++)
    if (!tps__is(event_list[i], TPS_EVENT))
      return CL_INVALID_EVENT;
  return tps__clEnqueueBarrierWithWaitList(queue, num_events, event_list, NULL);
}

cl_int tps__clEnqueueBarrier(cl_command_queue queue) {
  return tps__clEnqueueBarrierWithWaitList(queue, 0, NULL, NULL);
}

cl_int tps__command_mark(struct tps_command *command) {
  cl_int code = CL_SUCCESS;
  command->call = TPS_CALL_EnqueueMarkerWithWaitList;
  struct tps_text *out = tps__command_begin(command, &code);
  if (out == NULL)
    return code;
  tps__put_EnqueueMarkerWithWaitList(out, command->queue);
  return tps__command_end(command);
}

/* ---- Errors that OpenCL wants at once */

cl_int tps__check_range(cl_mem buffer, size_t offset, size_t size) {
  bool fits = size > 0 && size <= buffer->size && offset <= buffer->size - size;
  if (!fits)
    return CL_INVALID_VALUE;
  return CL_SUCCESS;
}

static bool overlap(cl_mem first, size_t at, cl_mem second, size_t other, size_t size) {
  size_t from = at + first->origin, into = other + second->origin;
  cl_mem one = first->parent != NULL ? first->parent : first;
  cl_mem two = second->parent != NULL ? second->parent : second;
  return one == two && (from > into ? from - into : into - from) < size;
}

cl_int tps__check_copy(cl_mem from, size_t from_offset, cl_mem into, size_t into_offset,
                       size_t size) {
  cl_int code = tps__check_range(from, from_offset, size);
  if (code == 0)
    code = tps__check_range(into, into_offset, size);
  return code == 0 && overlap(from, from_offset, into, into_offset, size) ? CL_MEM_COPY_OVERLAP
                                                                          : code;
}

cl_int tps__check_rect(cl_mem buffer, const size_t *origin, const size_t *region, size_t row_pitch,
                       size_t slice_pitch) {
  if (origin == NULL || region == NULL || region[0] == 0 || region[1] == 0 || region[2] == 0)
    return CL_INVALID_VALUE;
  size_t row = row_pitch == 0 ? region[0] : row_pitch, slice = 0, last = 0;
  if (row < region[0] || __builtin_mul_overflow(row, region[1], &slice) ||
      (slice_pitch != 0 && (slice_pitch < slice || slice_pitch % row != 0)))
    return CL_INVALID_VALUE;
  slice = slice_pitch == 0 ? slice : slice_pitch;
  size_t slices = 0, rows = 0;
  if (__builtin_mul_overflow(slice, origin[2] + region[2] - 1, &slices) ||
      __builtin_mul_overflow(row, origin[1] + region[1] - 1, &rows) ||
      __builtin_add_overflow(slices, rows, &last) ||
      __builtin_add_overflow(last, origin[0] + region[0], &last) || last > buffer->size)
    return CL_INVALID_VALUE;
  return CL_SUCCESS;
}

cl_int tps__check_copy_rect(cl_mem from, cl_mem into, const size_t *from_origin,
                            const size_t *into_origin, const size_t *region, size_t from_row,
                            size_t from_slice, size_t into_row, size_t into_slice) {
  cl_int code = tps__check_rect(from, from_origin, region, from_row, from_slice);
  return code != 0 ? code : tps__check_rect(into, into_origin, region, into_row, into_slice);
}

cl_int tps__check_fill(cl_mem buffer, const void *pattern, size_t pattern_size, size_t offset,
                       size_t size) {
  bool is_size =
      pattern_size > 0 && pattern_size <= 128 && (pattern_size & (pattern_size - 1)) == 0;
  if (pattern == NULL || !is_size || offset % pattern_size != 0 || size % pattern_size != 0)
    return CL_INVALID_VALUE;
  return tps__check_range(buffer, offset, size);
}

cl_int tps__check_migration(cl_uint count, const cl_mem *objects, cl_ulong flags) {
  const cl_ulong known = CL_MIGRATE_MEM_OBJECT_HOST | CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
  if (count == 0 || objects == NULL || (flags & ~known) != 0)
    return CL_INVALID_VALUE;
  for (cl_uint i = 0; i < count; i++)
    if (!tps__is(objects[i], TPS_MEM_OBJECT))
      return CL_INVALID_MEM_OBJECT;
  return CL_SUCCESS;
}

cl_int tps__check_arguments(cl_kernel kernel) {
  for (cl_uint i = 0; i < kernel->count; i++)
    if (!kernel->arguments[i].is_set)
      return CL_INVALID_KERNEL_ARGS;
  return CL_SUCCESS;
}

static cl_int check_local(cl_device_id device, cl_uint dimensions, const size_t *global,
                          const size_t *local) {
  size_t most[3] = {0}, group = 1;
  struct tps_answer answer = {sizeof most, most, NULL};
  if (tps__ask(&device->base, TPS_CALL_GetDeviceInfo, NULL, CL_DEVICE_MAX_WORK_ITEM_SIZES,
               &answer) != 0)
    return CL_SUCCESS; /* more than three dimensions: the proxy will say */
  for (cl_uint i = 0; i < dimensions; i++) {
    if (local[i] == 0 || global[i] % local[i] != 0)
      return CL_INVALID_WORK_GROUP_SIZE;
    if (local[i] > most[i])
      return CL_INVALID_WORK_ITEM_SIZE;
    group *= local[i];
  }
  return group > tps__device_number(device, CL_DEVICE_MAX_WORK_GROUP_SIZE)
             ? CL_INVALID_WORK_GROUP_SIZE
             : CL_SUCCESS;
}

cl_int tps__check_launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                         const size_t *offset, const size_t *global, const size_t *local) {
  (void)offset;
  if (dimensions < 1 || dimensions > 3)
    return CL_INVALID_WORK_DIMENSION;
  if (global == NULL)
    return CL_INVALID_GLOBAL_WORK_SIZE;
  for (cl_uint i = 0; i < dimensions; i++)
    if (global[i] == 0)
      return CL_INVALID_GLOBAL_WORK_SIZE;
  cl_int code = local == NULL ? CL_SUCCESS : check_local(queue->device, dimensions, global, local);
  return code != 0 ? code : tps__check_arguments(kernel);
}
