/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The connection to one proxy, over a channel that a move exchanges. */
#ifndef TOPOSEAT_VIRTUAL_LINK_H
#define TOPOSEAT_VIRTUAL_LINK_H

#include "calls.h"
#include "channel.h"

struct _cl_event;
struct tps_object;

struct tps_reply {
  struct tps_reply *next;
  uint64_t ticket;
  atomic_bool is_here;
  cl_int code;
  unsigned char *body;
  struct tps_cursor in;
};

struct tps_slot {
  struct _cl_event *event;
  uint32_t generation, next_free;
};

struct tps_link {
  struct tps_link *next;
  char *endpoint;
  char *host;
  struct tps_channel *channel;
  atomic_bool is_dead;
  atomic_ullong ids;
  /* sending */
  pthread_mutex_t sending;
  atomic_uint queued, turns;
  struct tps_text batch;
  size_t head;        /* where the message being written begins */
  uint64_t entries;   /* that were kept so far */
  atomic_ullong sets; /* user events that were set: one that is refused marks all queues */
  unsigned uploads;   /* that no command has used yet */
  struct tps_object *oldest, *newest;
  struct tps_link *next_home; /* while it moves */
  /* all else */
  pthread_mutex_t state;
  pthread_cond_t changed;
  unsigned waiting;
  uint64_t tickets;
  struct tps_reply *replies;
  struct tps_slot *slots;
  uint32_t slot_count, free_slot;
  cl_command_queue queues;
  cl_device_id devices;
  _Atomic(struct _cl_event *) ended;
  atomic_uint sub_devices, user_events; /* user events: that are open */
  atomic_uint movers;                   /* threads that move it: only the first one does */
  /* what the report tells */
  atomic_ullong bytes_to, bytes_from, calls, waits, waited_ns;
  double round_trip_s, rate_to, rate_from;
  char *moved_from;                                       /* ENDPOINT#INDEX that it had first */
  unsigned long long own_to, own_from, own_calls, own_ns; /* of the measurement itself */
};

/* Memory of the user as a region of rows and slices. */
struct tps_layout {
  char *base;
  size_t row, rows, slices; /* bytes of a row, rows of a slice, slices */
  size_t row_pitch, slice_pitch;
};

/* Where its byte `at` is, were it packed; of `length` bytes from there, those that lie together. */
char *tps__place(const struct tps_layout *layout, size_t at, size_t *length);

/* A new one, which is nobody's yet; NULL, and it is said why. */
struct tps_link *tps__connect(const char *endpoint, const struct tps_hearing *hearing);
/* Of a socket that has greeted. */
struct tps_link *tps__link_new(int socket, const struct tps_hearing *hearing);
/* The process's own to `endpoint`, made on first use. */
struct tps_link *tps__link(const char *endpoint, const struct tps_hearing *hearing);
void tps__leave(void); /* the process ends: what was enqueued last is sent */
/* A message of who has locked sending, so that nobody else sends meanwhile; tps__begin of object.h
   locks. With `reply` it is answered. */
void tps__lock(struct tps_link *link);
struct tps_text *tps__begin_locked(struct tps_link *link, uint32_t call, struct tps_reply *reply);
void tps__end_locked(struct tps_link *link);
void tps__end(struct tps_link *link);
bool tps__send_batch(struct tps_link *link);
cl_int tps__await_sent(struct tps_link *link, struct tps_reply *reply);
/* The code of the answer, CL_OUT_OF_RESOURCES from a dead proxy. `reply` is freed by the caller. */
cl_int tps__await(struct tps_link *link, struct tps_reply *reply);
cl_int tps__answer(struct tps_link *link, struct tps_reply *reply); /* ends the message first */
/* The same where the answer is its code, or where, without `reply`, there is none. */
cl_int tps__done(struct tps_link *link, struct tps_reply *reply);
void tps__reply_free(struct tps_reply *reply);
bool tps__flush(struct tps_link *link); /* whether there was something */
/* Sends user memory, other threads between the frames; its number, for one later message, whose
   sender counts link->uploads down. */
uint64_t tps__upload(struct tps_link *link, const struct tps_layout *layout);
uint64_t tps__new_id(struct tps_link *link);
void tps__note_wait(struct tps_link *link, uint64_t since_ns);
extern bool tps__is_strict;
extern atomic_bool tps__is_leaving; /* the process ends: it hangs up itself */

#endif
