/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "object.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "log.h"
#include "memory.h"
#include "program.h"

bool tps__is_object(const struct tps_object *object, uint32_t kind) {
  return object != NULL && object->dispatch == &tps__dispatch && object->kind == kind;
}

/* ---- Handles that live: a kernel's argument of eight bytes may be one, or a number. */

static void *live; /* a tree */
static pthread_mutex_t living = PTHREAD_MUTEX_INITIALIZER;

static int by_address(const void *one, const void *other) { return (one > other) - (one < other); }

static void set_live(const void *handle) {
  pthread_mutex_lock(&living);
  if (tsearch(handle, &live, by_address) == NULL)
    abort();
  pthread_mutex_unlock(&living);
}

static void set_gone(const void *handle) {
  pthread_mutex_lock(&living);
  tdelete(handle, &live, by_address);
  pthread_mutex_unlock(&living);
}

bool tps__is_live_handle(const void *handle) {
  pthread_mutex_lock(&living);
  bool is_found = tfind(handle, &live, by_address) != NULL;
  pthread_mutex_unlock(&living);
  return is_found;
}

static bool is_argument(uint32_t kind) { return kind == TPS_MEM_OBJECT || kind == TPS_SAMPLER; }

struct tps_fact {
  struct tps_fact *next;
  uint64_t device;
  uint32_t call;
  cl_uint name;
  size_t length;
  unsigned char bytes[];
};

/* ---- Lives */

void *tps__object_new(size_t size, uint32_t kind, struct tps_link *link) {
  struct tps_object *object = calloc(1, size);
  if (object == NULL)
    return NULL;
  object->dispatch = &tps__dispatch;
  object->kind = kind;
  object->link = link;
  atomic_store(&object->users, 1);
  atomic_store(&object->holds, 1); /* the users together are one holder */
  if (kind != TPS_EVENT)
    object->id = tps__new_id(link);
  if (is_argument(kind))
    set_live(object);
  return object;
}

void tps__forget(struct tps_object *object) {
  while (object->facts != NULL) {
    struct tps_fact *fact = object->facts;
    object->facts = fact->next;
    free(fact);
  }
}

static void free_context(cl_context context) {
  for (cl_uint i = 0; i < context->device_count; i++)
    tps__drop(context->devices[i]);
  free(context->devices);
  free(context->properties);
}

static void free_queue(cl_command_queue queue) {
  struct tps_link *link = queue->base.link;
  pthread_mutex_lock(&link->state);
  cl_command_queue *at = &link->queues;
  while (*at != NULL && *at != queue)
    at = &(*at)->next;
  if (*at == queue)
    *at = queue->next;
  pthread_mutex_unlock(&link->state);
  tps__drop(queue->context);
}

static void free_memory(cl_mem memobj) {
  while (memobj->destructors != NULL) {
    struct tps_destructor *destructor = memobj->destructors;
    memobj->destructors = destructor->next;
    destructor->call(memobj, destructor->data);
    free(destructor);
  }
  while (memobj->maps != NULL) {
    struct tps_map *map = memobj->maps;
    memobj->maps = map->next;
    free(map);
  }
  free(memobj->shadow);
  tps__drop(memobj->parent);
  tps__drop(memobj->context);
}

static void free_program(cl_program program) {
  for (cl_uint i = 0; i < program->device_count; i++)
    tps__drop(program->devices[i]);
  for (cl_uint i = 0; i < program->input_count; i++)
    tps__drop(program->inputs[i]);
  free(program->inputs);
  free(program->devices);
  free(program->source);
  free(program->options);
  tps__drop(program->context);
}

static void free_kernel(cl_kernel kernel) {
  for (cl_uint i = 0; i < kernel->count; i++) {
    free(kernel->arguments[i].type);
    free(kernel->arguments[i].name);
  }
  free(kernel->arguments);
  free(kernel->name);
  atomic_fetch_sub(&kernel->program->kernels, 1);
  tps__drop(kernel->program);
}

static void free_event(cl_event event) {
  if (event->queue == NULL && atomic_load(&event->status) > 0)
    atomic_fetch_sub(&event->base.link->user_events, 1);
  tps__drop(event->memory);
  tps__drop(event->queue);
  tps__drop(event->context);
}

static const struct {
  uint32_t kind, call; /* the message that tells the proxy */
} releases[] = {
    {TPS_CONTEXT, TPS_CALL_ReleaseContext},      {TPS_COMMAND_QUEUE, TPS_CALL_ReleaseCommandQueue},
    {TPS_MEM_OBJECT, TPS_CALL_ReleaseMemObject}, {TPS_SAMPLER, TPS_CALL_ReleaseSampler},
    {TPS_PROGRAM, TPS_CALL_ReleaseProgram},      {TPS_KERNEL, TPS_CALL_ReleaseKernel},
    {TPS_EVENT, TPS_CALL_ReleaseEvent},          {TPS_DEVICE, TPS_CALL_ReleaseDevice},
};

static void destroy(struct tps_object *object) {
  for (size_t i = 0; i < sizeof releases / sizeof *releases; i++)
    if (releases[i].kind == object->kind && !object->is_local) {
      struct tps_link *link = object->link;
      tps_put(tps__begin(link, releases[i].call, NULL), object->id);
      if (link->next_home != NULL) {
        tps_put(tps__begin(link->next_home, releases[i].call, NULL), object->id);
        tps__end(link->next_home);
      }
      tps__unlist(object);
      tps__end(link);
    }
  if (is_argument(object->kind))
    set_gone(object);
  switch (object->kind) {
  case TPS_CONTEXT:
    free_context((cl_context)object);
    break;
  case TPS_COMMAND_QUEUE:
    free_queue((cl_command_queue)object);
    break;
  case TPS_MEM_OBJECT:
    free_memory((cl_mem)object);
    break;
  case TPS_SAMPLER:
    tps__drop(((cl_sampler)object)->context);
    break;
  case TPS_PROGRAM:
    free_program((cl_program)object);
    break;
  case TPS_KERNEL:
    free_kernel((cl_kernel)object);
    break;
  case TPS_EVENT:
    free_event((cl_event)object);
    break;
  case TPS_DEVICE:
    atomic_fetch_sub(&object->link->sub_devices, 1);
    tps__drop(((cl_device_id)object)->parent);
    break;
  default:
    break;
  }
  tps__forget(object);
  object->kind = 0;
  free(object);
}

void tps__hold(void *object) {
  if (object != NULL)
    atomic_fetch_add(&((struct tps_object *)object)->holds, 1);
}

/* Devices of the list stay: `id` is their index, which the proxy knows by itself. */
static bool is_lasting(const struct tps_object *object) {
  return object->kind == TPS_PLATFORM ||
         (object->kind == TPS_DEVICE && ((cl_device_id)object)->parent == NULL);
}

void tps__drop(void *argument) {
  struct tps_object *object = argument;
  if (object == NULL || is_lasting(object))
    return;
  if (atomic_fetch_sub(&object->holds, 1) == 1)
    destroy(object);
}

cl_int tps__retain(struct tps_object *object) {
  if (!is_lasting(object))
    atomic_fetch_add(&object->users, 1);
  return CL_SUCCESS;
}

cl_int tps__release(struct tps_object *object) {
  if (!is_lasting(object) && atomic_fetch_sub(&object->users, 1) == 1)
    tps__drop(object);
  return CL_SUCCESS;
}

/* Events that ended are let go of by a thread of the application: the one that receives never
 * sends. */
static void bury(struct tps_link *link) {
  struct _cl_event *event = atomic_exchange(&link->ended, NULL);
  while (event != NULL) {
    struct _cl_event *next = event->next;
    tps__drop(event);
    event = next;
  }
}

struct tps_text *tps__begin(struct tps_link *link, uint32_t call, struct tps_reply *reply) {
  if (atomic_load_explicit(&link->ended, memory_order_relaxed) != NULL)
    bury(link);
  tps__lock(link);
  return tps__begin_locked(link, call, reply);
}

void *tps__given(void *object, cl_int code, cl_int *errcode_ret) {
  tps__fail(errcode_ret, code);
  if (code == 0)
    return object;
  tps__release(object);
  return NULL;
}

void *tps__made(void *object, struct tps_reply *reply, cl_int *errcode_ret) {
  tps__log(object, 0);
  return tps__given(object, tps__done(((struct tps_object *)object)->link, reply), errcode_ret);
}

void tps__put_list(struct tps_text *out, size_t count, const void *const *objects) {
  tps_put(out, objects == NULL ? 0 : count);
  for (size_t i = 0; objects != NULL && i < count; i++)
    tps_put(out, tps__id(objects[i]));
}

/* ---- Answers */

void *tps__fail(cl_int *errcode_ret, cl_int code) {
  if (errcode_ret != NULL)
    *errcode_ret = code;
  return NULL;
}

cl_int tps__give(const struct tps_answer *answer, const void *value, size_t size) {
  if (answer->value != NULL) {
    if (answer->size < size)
      return CL_INVALID_VALUE;
    if (size > 0)
      memcpy(answer->value, value, size);
  }
  if (answer->size_ret != NULL)
    *answer->size_ret = size;
  return CL_SUCCESS;
}

cl_int tps__give_text(const struct tps_answer *answer, const char *text) {
  return tps__give(answer, text, strlen(text) + 1);
}

static pthread_mutex_t facts = PTHREAD_MUTEX_INITIALIZER;

void tps__learn(struct tps_object *object, uint32_t call, uint64_t device, cl_uint name,
                const void *bytes, size_t length) {
  struct tps_fact *fact = malloc(sizeof *fact + length);
  if (fact == NULL)
    return;
  *fact = (struct tps_fact){.device = device, .call = call, .name = name, .length = length};
  if (length > 0)
    memcpy(fact->bytes, bytes, length);
  pthread_mutex_lock(&facts);
  fact->next = object->facts;
  object->facts = fact;
  pthread_mutex_unlock(&facts);
}

static const struct tps_fact *known(struct tps_object *object, uint32_t call, uint64_t device,
                                    cl_uint name) {
  pthread_mutex_lock(&facts);
  const struct tps_fact *fact = object->facts;
  while (fact != NULL && (fact->call != call || fact->device != device || fact->name != name))
    fact = fact->next;
  pthread_mutex_unlock(&facts);
  return fact;
}

cl_int tps__ask(struct tps_object *object, uint32_t call, cl_device_id device, cl_uint name,
                const struct tps_answer *answer) {
  const struct tps_fact *fact = known(object, call, tps__id(device), name);
  if (fact != NULL)
    return tps__give(answer, fact->bytes, fact->length);
  if (call == TPS_CALL_GetDeviceInfo)
    return CL_INVALID_VALUE;
  struct tps_reply reply;
  struct tps_text *out = tps__begin(object->link, call, &reply);
  tps_put(out, object->id);
  tps_put(out, tps__id(device));
  tps_put(out, name);
  cl_int code = tps__answer(object->link, &reply);
  size_t length = 0;
  const unsigned char *bytes = code == 0 ? tps_take_bytes(&reply.in, &length) : NULL;
  if (code == 0 && reply.in.bad)
    code = CL_OUT_OF_RESOURCES;
  if (code == 0) {
    tps__learn(object, call, tps__id(device), name, bytes, length);
    code = tps__give(answer, bytes, length);
  }
  tps__reply_free(&reply);
  return code;
}
