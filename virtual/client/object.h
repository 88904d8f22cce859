/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the application has of us. An object is used by the application (`users`) and held by other
   objects and by commands in flight (`holds`); without both it goes, here and, by a message, in the
   proxy. */
#ifndef TOPOSEAT_VIRTUAL_OBJECT_H
#define TOPOSEAT_VIRTUAL_OBJECT_H

#include "client_calls.h"
#include "link.h"

enum tps_kind {
  TPS_PLATFORM = 0x70550001,
  TPS_DEVICE,
  TPS_CONTEXT,
  TPS_COMMAND_QUEUE,
  TPS_MEM_OBJECT,
  TPS_SAMPLER,
  TPS_PROGRAM,
  TPS_KERNEL,
  TPS_EVENT,
};

struct tps_object {
  const struct tps_dispatch *dispatch;
  uint32_t kind;
  atomic_uint users, holds;
  bool is_local; /* the proxy has nothing to release */
  uint64_t id;
  struct tps_link *link;            /* NULL: the platform */
  struct tps_fact *facts;           /* what the proxy said of it */
  struct tps_entry *entries;        /* what made it: see log.c */
  struct tps_object *older, *newer; /* of those that a move makes again, `is_listed` */
  bool is_listed;
};

/* A message, alone: between begin and end no other thread sends. */
struct tps_text *tps__begin(struct tps_link *link, uint32_t call, struct tps_reply *reply);
bool tps__is_object(const struct tps_object *object, uint32_t kind);
#define tps__is(object, kind) tps__is_object((const struct tps_object *)(object), kind)
static inline uint64_t tps__id(const void *object) {
  return object == NULL ? 0 : ((const struct tps_object *)object)->id;
}
/* A zeroed object of `size` bytes that the application uses once. */
void *tps__object_new(size_t size, uint32_t kind, struct tps_link *link);
cl_int tps__retain(struct tps_object *object);
cl_int tps__release(struct tps_object *object);
void tps__hold(void *object);
void tps__drop(void *object);
/* Ends the message that makes `object` in the proxy: the object, or NULL where that failed. Without
   `reply` nobody waits for it. */
void *tps__made(void *object, struct tps_reply *reply, cl_int *errcode_ret);
void *tps__given(void *object, cl_int code, cl_int *errcode_ret); /* the same, once it is known */
void tps__put_list(struct tps_text *out, size_t count, const void *const *objects);
bool tps__is_live_handle(const void *handle);

/* Where the answer to a question goes. */
struct tps_answer {
  size_t size;
  void *value;
  size_t *size_ret;
};
enum { TPS_NOT_HERE = 1 };
cl_int tps__give(const struct tps_answer *answer, const void *value, size_t size);
cl_int tps__give_text(const struct tps_answer *answer, const char *text);
#define TPS_GIVE(answer, type, value) tps__give(answer, &(type){value}, sizeof(type))
/* Asks the proxy once. */
cl_int tps__ask(struct tps_object *object, uint32_t call, cl_device_id device, cl_uint name,
                const struct tps_answer *answer);
void tps__learn(struct tps_object *object, uint32_t call, uint64_t device, cl_uint name,
                const void *bytes, size_t length);
void tps__forget(struct tps_object *object);

/* Fails by errcode_ret. */
void *tps__fail(cl_int *errcode_ret, cl_int code);

#endif
