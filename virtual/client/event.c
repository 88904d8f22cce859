/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "event.h"

#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "log.h"

#define EVENT_BIT (1ULL << 63)
enum { SLOT_BITS = 24 };

/* ---- Events in flight have a slot, by which the proxy's word finds them. */

static bool take_slot(struct tps_link *link, struct _cl_event *event) {
  pthread_mutex_lock(&link->state);
  if (link->free_slot == UINT32_MAX) {
    uint32_t count = link->slot_count == 0 ? 64 : 2 * link->slot_count;
    struct tps_slot *grown =
        count > 1U << SLOT_BITS ? NULL : realloc(link->slots, count * sizeof *grown);
    if (grown == NULL) {
      pthread_mutex_unlock(&link->state);
      return false;
    }
    for (uint32_t i = count; i-- > link->slot_count;) {
      grown[i] = (struct tps_slot){.next_free = link->free_slot};
      link->free_slot = i;
    }
    link->slots = grown;
    link->slot_count = count;
  }
  uint32_t at = link->free_slot;
  struct tps_slot *slot = &link->slots[at];
  link->free_slot = slot->next_free;
  slot->event = event;
  slot->generation++;
  event->base.id = EVENT_BIT | (uint64_t)slot->generation << SLOT_BITS | at;
  pthread_mutex_unlock(&link->state);
  return true;
}

struct _cl_event *tps__event_of(struct tps_link *link, uint64_t id) {
  uint64_t at = id & ((1U << SLOT_BITS) - 1);
  struct _cl_event *event = at < link->slot_count ? link->slots[at].event : NULL;
  return event != NULL && event->base.id == id ? event : NULL;
}

struct _cl_event *tps__event_new(cl_context context, cl_command_queue queue, cl_uint type) {
  struct _cl_event *event = tps__object_new(sizeof *event, TPS_EVENT, context->base.link);
  if (event == NULL)
    return NULL;
  event->context = context;
  event->queue = queue;
  event->type = type;
  event->parts = 1;
  atomic_store(&event->status, queue == NULL ? CL_SUBMITTED : CL_QUEUED);
  tps__hold(context);
  tps__hold(queue);
  if (queue == NULL)
    event->base.id = tps__new_id(context->base.link);
  else if (!take_slot(context->base.link, event)) {
    tps__release(&event->base);
    return NULL;
  } else
    tps__hold(event);
  return event;
}

/* ---- Callbacks have a thread of their own, since they may call anything that does not block. */

struct job {
  struct job *next;
  void (*call)(void *);
  void *data;
};
static struct {
  pthread_mutex_t lock;
  pthread_cond_t more;
  struct job *first, **last;
  bool runs;
} jobs = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static void *run_jobs(void *nothing) {
  (void)nothing;
  for (;;) {
    pthread_mutex_lock(&jobs.lock);
    while (jobs.first == NULL)
      pthread_cond_wait(&jobs.more, &jobs.lock);
    struct job *job = jobs.first;
    jobs.first = job->next;
    if (jobs.first == NULL)
      jobs.last = &jobs.first;
    pthread_mutex_unlock(&jobs.lock);
    job->call(job->data);
    free(job);
  }
  return NULL;
}

void tps__run_later(void (*call)(void *), void *data) {
  struct job *job = malloc(sizeof *job);
  if (job == NULL)
    return;
  *job = (struct job){.call = call, .data = data};
  pthread_mutex_lock(&jobs.lock);
  if (jobs.first == NULL)
    jobs.last = &jobs.first;
  *jobs.last = job;
  jobs.last = &job->next;
  if (!jobs.runs) {
    pthread_t thread;
    jobs.runs = pthread_create(&thread, NULL, run_jobs, NULL) == 0;
    if (jobs.runs)
      pthread_detach(thread);
  }
  pthread_cond_signal(&jobs.more);
  pthread_mutex_unlock(&jobs.lock);
}

static void call_back(void *argument) {
  struct tps_callback *callback = argument;
  callback->call(callback->event, callback->status, callback->data);
  tps__drop(callback->event);
  free(callback);
}

/* The program hears that it failed: its queue needs not say so, too. State is locked. */
static void event_heard(const struct _cl_event *event) {
  cl_command_queue queue = event->queue;
  if (queue != NULL && atomic_load(&event->status) < 0 && queue->refused == event->base.id)
    atomic_store(&queue->error, CL_SUCCESS);
}

static void start_callbacks(struct _cl_event *event) {
  struct tps_callback *callback = event->callbacks;
  event->callbacks = NULL;
  if (callback != NULL)
    event_heard(event);
  while (callback != NULL) {
    struct tps_callback *next = callback->next;
    cl_int status = atomic_load(&event->status);
    callback->status = status < 0 ? status : callback->when;
    tps__run_later(call_back, callback);
    callback = next;
  }
}

/* ---- The end */

static void event_done(struct _cl_event *event, cl_int status) {
  atomic_store(&event->status, status);
  start_callbacks(event);
}

static void leave_slot(struct _cl_event *event) {
  struct tps_link *link = event->base.link;
  uint32_t at = (uint32_t)(event->base.id & ((1U << SLOT_BITS) - 1));
  if (event->queue == NULL || link->slots[at].event != event)
    return;
  link->slots[at].event = NULL;
  link->slots[at].next_free = link->free_slot;
  link->free_slot = at;
}

static void end_part(struct _cl_event *event, cl_int status, const cl_ulong times[4]) {
  struct tps_link *link = event->base.link;
  for (int i = 0; i < 4; i++)
    if (times[i] != 0 && (event->times[i] == 0 || (times[i] < event->times[i]) == (i < 3)))
      event->times[i] = times[i];
  if (event->failed == 0)
    event->failed = status;
  if (--event->parts > 0)
    return;
  event_done(event, event->failed);
  if (event->whole != NULL)
    end_part(event->whole, event->failed, event->times);
  event->next = atomic_load(&link->ended);
  while (!atomic_compare_exchange_weak(&link->ended, &event->next, event))
    ;
}

void tps__event_end(struct _cl_event *event, cl_int status, const cl_ulong times[4]) {
  leave_slot(event);
  end_part(event, status, times);
}

static bool is_awaited(const void *event) {
  return atomic_load(&((const struct _cl_event *)event)->status) > 0;
}

cl_int tps__event_wait(struct _cl_event *event) {
  struct tps_link *link = event->base.link;
  if (is_awaited(event)) {
    uint64_t since = tps_now_ns();
    tps__flush(link);
    if (event->queue != NULL) /* what is the user's is not told by the proxy */
      tps__read(link->channel, is_awaited, event);
    pthread_mutex_lock(&link->state);
    link->waiting++;
    while (is_awaited(event) && !atomic_load(&link->is_dead))
      pthread_cond_wait(&link->changed, &link->state);
    link->waiting--;
    pthread_mutex_unlock(&link->state);
    tps__note_wait(link, since);
  }
  if (atomic_load(&event->status) == CL_COMPLETE)
    return CL_SUCCESS;
  pthread_mutex_lock(&link->state);
  event_heard(event);
  pthread_mutex_unlock(&link->state);
  return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
}

/* ---- Calls */

cl_int tps__clWaitForEvents(cl_uint num_events, const cl_event *event_list) {
  if (num_events == 0 || event_list == NULL)
    return CL_INVALID_VALUE;
  for (cl_uint i = 0; i < num_events; i++) {
    if (!tps__is(event_list[i], TPS_EVENT))
      return CL_INVALID_EVENT;
    if (event_list[i]->context != event_list[0]->context)
      return CL_INVALID_CONTEXT;
  }
  cl_int code = CL_SUCCESS;
  for (cl_uint i = 0; i < num_events; i++) {
    cl_int ended = tps__event_wait(event_list[i]);
    code = code == 0 ? ended : code;
  }
  return code;
}

cl_int tps__about_event(cl_event event, cl_uint name, const struct tps_answer *answer) {
  switch (name) {
  case CL_EVENT_COMMAND_QUEUE:
    return TPS_GIVE(answer, cl_command_queue, event->queue);
  case CL_EVENT_CONTEXT:
    return TPS_GIVE(answer, cl_context, event->context);
  case CL_EVENT_COMMAND_TYPE:
    return TPS_GIVE(answer, cl_uint, event->type);
  case CL_EVENT_COMMAND_EXECUTION_STATUS:
    if (answer->value != NULL && atomic_load(&event->status) > 0)
      tps__flush(event->base.link);
    return TPS_GIVE(answer, cl_int, atomic_load(&event->status));
  default:
    return TPS_NOT_HERE;
  }
}

cl_int tps__about_profiling(cl_event event, cl_uint name, const struct tps_answer *answer) {
  if (event->queue == NULL || (event->queue->properties & CL_QUEUE_PROFILING_ENABLE) == 0 ||
      atomic_load(&event->status) != CL_COMPLETE)
    return CL_PROFILING_INFO_NOT_AVAILABLE;
  if (name < CL_PROFILING_COMMAND_QUEUED || name > CL_PROFILING_COMMAND_END)
    return CL_INVALID_VALUE;
  return TPS_GIVE(answer, cl_ulong, event->times[name - CL_PROFILING_COMMAND_QUEUED]);
}

cl_int tps__clSetEventCallback(cl_event event, cl_int command_exec_callback_type,
                               void (*pfn_notify)(cl_event, cl_int, void *), void *user_data) {
  if (!tps__is(event, TPS_EVENT))
    return CL_INVALID_EVENT;
  if (pfn_notify == NULL || command_exec_callback_type < CL_COMPLETE ||
      command_exec_callback_type > CL_SUBMITTED)
    return CL_INVALID_VALUE;
  struct tps_callback *callback = malloc(sizeof *callback);
  if (callback == NULL)
    return CL_OUT_OF_HOST_MEMORY;
  *callback = (struct tps_callback){
      .call = pfn_notify, .data = user_data, .event = event, .when = command_exec_callback_type};
  tps__hold(event);
  tps__flush(event->base.link);
  pthread_mutex_lock(&event->base.link->state);
  struct tps_callback **at = &event->callbacks;
  while (*at != NULL && (*at)->when >= callback->when) /* submitted, running, complete */
    at = &(*at)->next;
  callback->next = *at;
  *at = callback;
  if (atomic_load(&event->status) <= 0)
    start_callbacks(event);
  pthread_mutex_unlock(&event->base.link->state);
  return CL_SUCCESS;
}

cl_event tps__clCreateUserEvent(cl_context context, cl_int *errcode_ret) {
  if (!tps__is(context, TPS_CONTEXT))
    return tps__fail(errcode_ret, CL_INVALID_CONTEXT);
  struct _cl_event *event = tps__event_new(context, NULL, CL_COMMAND_USER);
  if (event == NULL)
    return tps__fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
  atomic_fetch_add(&context->base.link->user_events, 1);
  struct tps_text *out = tps__begin(context->base.link, TPS_CALL_CreateUserEvent, NULL);
  tps_put(out, event->base.id);
  tps_put(out, context->base.id);
  tps__list(&event->base);
  tps__end(context->base.link);
  tps__fail(errcode_ret, CL_SUCCESS);
  return event;
}

cl_int tps__clSetUserEventStatus(cl_event event, cl_int execution_status) {
  if (!tps__is(event, TPS_EVENT) || event->queue != NULL)
    return CL_INVALID_EVENT;
  if (execution_status > 0)
    return CL_INVALID_VALUE;
  struct tps_link *link = event->base.link;
  tps__lock(link); /* a move finds it open, or set there too */
  pthread_mutex_lock(&link->state);
  bool is_first = atomic_load(&event->status) > 0;
  if (is_first)
    event_done(event, execution_status);
  pthread_cond_broadcast(&link->changed);
  pthread_mutex_unlock(&link->state);
  if (is_first) {
    struct tps_text *out = tps__begin_locked(link, TPS_CALL_SetUserEventStatus, NULL);
    tps_put(out, event->base.id);
    tps_put(out, (uint64_t)(int64_t)execution_status);
    atomic_fetch_add(&link->sets, 1);
    tps__end_locked(link);
    tps__send_batch(link);
    atomic_fetch_sub(&link->user_events, 1);
  }
  pthread_mutex_unlock(&link->sending);
  return is_first ? CL_SUCCESS : CL_INVALID_OPERATION;
}
