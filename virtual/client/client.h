/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An OpenCL platform whose devices are on other nodes. This library lives in the user's process:
   what it can answer it answers here, what need not wait does not
   (docs/adr/0063-borrowed-accelerators.md).

   An object is used by the application (`users`) and held by other objects and by commands in
   flight
   (`holds`); without both it goes, here and, by a message, in the proxy. */
#ifndef TOPOSEAT_VIRTUAL_CLIENT_H
#define TOPOSEAT_VIRTUAL_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "client_calls.h"

enum { MOST_DEVICES = 256 };

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

struct _cl_platform_id {
  struct tps_object base;
};

struct _cl_device_id {
  struct tps_object base;
  unsigned index;            /* in the proxy's list */
  cl_device_id parent, next; /* next of the proxy's */
  uint64_t held;             /* bytes, by other clients, when it was connected */
};

struct _cl_context {
  struct tps_object base;
  cl_uint device_count;
  cl_device_id *devices;
  size_t property_bytes;
  intptr_t *properties;
};

struct _cl_command_queue {
  struct tps_object base;
  cl_context context;
  cl_device_id device;
  cl_ulong properties;
  atomic_int error;      /* of a command that was refused, until the program has heard of it */
  uint64_t refused;      /* that command's event; 0: it has none, or there are several commands */
  cl_command_queue next; /* of those of the link */
  atomic_ullong sent;    /* commands so far; sending is locked */
  atomic_ullong ended;   /* 1 + what of `sent` and `sets` is known to be over, 0: nothing */
};

struct tps_destructor {
  struct tps_destructor *next;
  void (*call)(cl_mem, void *);
  void *data;
};

/* Memory of the user as a region of rows and slices. */
struct tps_layout {
  char *base;
  size_t row, rows, slices; /* bytes of a row, rows of a slice, slices */
  size_t row_pitch, slice_pitch;
};

struct tps_map {
  struct tps_map *next;
  cl_ulong flags;
  struct tps_layout layout;
  size_t origin[3], region[3];
};

struct _cl_mem {
  struct tps_object base;
  cl_context context;
  cl_uint type;
  cl_ulong flags;
  size_t size;
  char *host; /* of the user, with USE_HOST_PTR */
  cl_mem parent;
  size_t origin; /* in the parent */
  char *shadow;  /* what maps point into */
  struct tps_map *maps;
  struct tps_destructor *destructors;
  cl_image_format format;
  cl_image_desc image;
  size_t element;
};

struct _cl_sampler {
  struct tps_object base;
  cl_context context;
  cl_uint values[3]; /* normalized coordinates, addressing, filter */
};

struct _cl_program {
  struct tps_object base;
  cl_context context;
  cl_uint device_count;
  cl_device_id *devices;
  char *source, *options;
  atomic_int kernels, built;   /* `built`: the code of the last build */
  struct _cl_program **inputs; /* headers, or what it was linked from: held for a move */
  cl_uint input_count;
};

struct tps_argument {
  cl_uint address, access;
  cl_ulong qualifier;
  char *type, *name;
  bool known, is_set;
};

struct _cl_kernel {
  struct tps_object base;
  cl_program program;
  char *name;
  cl_uint count;
  struct tps_argument *arguments;
};

struct tps_callback {
  struct tps_callback *next;
  void (*call)(cl_event, cl_int, void *);
  void *data;
  cl_event event;
  cl_int when, status;
};

struct _cl_event {
  struct tps_object base;
  cl_context context;
  cl_command_queue queue; /* NULL: a user event */
  cl_uint type;
  atomic_int status;
  cl_int failed;            /* of its parts so far */
  cl_ulong times[4];        /* queued, submitted, started, ended: of the device's clock */
  struct tps_layout layout; /* where a read's bytes go */
  size_t expected;          /* of those bytes, 0: none */
  struct _cl_event *whole;  /* this one is a part of it */
  unsigned parts;           /* that have not ended, itself included */
  cl_mem memory;            /* held until the end */
  struct tps_callback *callbacks;
  struct _cl_event *next; /* of those that ended, see tps__bury */
};

/* ---- link.c: the connection to one proxy */

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

/* A connected socket. Who waits for an answer reads himself, which saves a change of threads; what
   comes when nobody waits is for a thread of the library, which `bell` (an epoll) wakes. */
struct tps_channel {
  int socket, bell;
  struct tps_inflow in;
  pthread_mutex_t reading;
  pthread_t receiver;
  bool is_closed;                  /* while reading is locked */
  _Atomic(struct tps_link *) link; /* NULL: it has another channel */
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

/* The link to `endpoint`, made on first use; NULL, and it is said why. */
struct tps_link *tps__link(const char *endpoint);
struct tps_link *tps__connect(const char *endpoint); /* a new one, which is nobody's yet */
/* A message, alone: between begin and end no other thread sends. With `reply` it is answered. */
struct tps_text *tps__begin(struct tps_link *link, uint32_t call, struct tps_reply *reply);
void tps__end(struct tps_link *link);
/* The same for who has locked sending, so that nobody else sends meanwhile. */
void tps__lock(struct tps_link *link);
struct tps_text *tps__begin_locked(struct tps_link *link, uint32_t call, struct tps_reply *reply);
void tps__end_locked(struct tps_link *link);
bool tps__send_batch(struct tps_link *link);
cl_int tps__await_sent(struct tps_link *link, struct tps_reply *reply);
/* The code of the answer, CL_OUT_OF_RESOURCES from a dead proxy. `reply` is freed by the caller. */
cl_int tps__await(struct tps_link *link, struct tps_reply *reply);
void tps__reply_free(struct tps_reply *reply);
bool tps__flush(struct tps_link *link); /* whether there was something */
/* Sends user memory, other threads between the frames; its number, for one later message, whose
   sender counts link->uploads down. */
uint64_t tps__upload(struct tps_link *link, const struct tps_layout *layout);
uint64_t tps__new_id(struct tps_link *link);
void tps__note_wait(struct tps_link *link, uint64_t since_ns);
uint64_t tps__now_ns(void);
extern bool tps__is_strict;
extern atomic_bool tps__is_leaving; /* the process ends: it hangs up itself */

/* ---- receive.c: what the proxy says */

/* The link is told once it is dead. NULL: there are no threads or files left. */
struct tps_channel *tps__channel_new(struct tps_link *link, int socket);
void tps__channel_close(struct tps_channel *channel); /* of which nobody waits for an answer */
/* Reads as long as `is_awaited(what)`, unless another thread does. */
void tps__read(struct tps_link *link, bool (*is_awaited)(const void *), const void *what);

/* ---- object.c */

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
void tps__put_list(struct tps_text *out, size_t count, const void *const *objects);
void tps__bury(struct tps_link *link);
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

cl_int tps__about_device(cl_device_id device, cl_uint name, const struct tps_answer *answer);
cl_int tps__about_context(cl_context context, cl_uint name, const struct tps_answer *answer);
cl_int tps__about_command_queue(cl_command_queue queue, cl_uint name,
                                const struct tps_answer *answer);
cl_int tps__about_mem_object(cl_mem memobj, cl_uint name, const struct tps_answer *answer);
cl_int tps__about_image(cl_mem image, cl_uint name, const struct tps_answer *answer);
cl_int tps__about_sampler(cl_sampler sampler, cl_uint name, const struct tps_answer *answer);
cl_int tps__about_program(cl_program program, cl_uint name, const struct tps_answer *answer);
cl_int tps__about_build(cl_program program, cl_device_id device, cl_uint name,
                        const struct tps_answer *answer);
cl_int tps__about_kernel(cl_kernel kernel, cl_uint name, const struct tps_answer *answer);
cl_int tps__about_work_group(cl_kernel kernel, cl_device_id device, cl_uint name,
                             const struct tps_answer *answer);
cl_int tps__about_event(cl_event event, cl_uint name, const struct tps_answer *answer);

/* ---- log.c: the messages that made an object, kept to make it again; sending is locked */

struct tps_entry {
  struct tps_entry *next;
  struct tps_object *object;
  uint64_t number;    /* in the order of the wire, whichever thread sent it */
  uint32_t call, key; /* a later one of both replaces it */
  bool is_there;      /* in the new home */
  size_t length;
  unsigned char words[];
};
void tps__list(struct tps_object *object);
void tps__unlist(struct tps_object *object); /* and forget how it was made */
/* Keeps the message that is being written. */
void tps__log(void *object, uint32_t key);

/* ---- move.c */

/* TPS_MOVE: in a thread of its own. */
void tps__move(struct tps_link *link, struct tps_cursor *in);

/* ---- report.c */

void tps__measure(struct tps_link *link);
void tps__report(void);

/* ---- platform.c */

extern struct _cl_platform_id tps__platform;
bool tps__learn_devices(struct tps_link *link); /* once, before anything else is asked */
/* The devices of TOPOSEAT_CL_DEVICES that answer. */
cl_uint tps__devices(cl_device_id **devices);
cl_uint tps__known_devices(cl_device_id **devices); /* so far, connecting to nothing */
/* A fact of the device as a number, 0 where it has none. */
cl_ulong tps__device_number(cl_device_id device, cl_uint name);
bool tps__context_has(cl_context context, cl_device_id device);
/* Fails by errcode_ret. */
void *tps__fail(cl_int *errcode_ret, cl_int code);

/* ---- command.c: what is enqueued */

struct tps_command {
  uint32_t call;
  cl_uint type;
  cl_command_queue queue;
  cl_uint waits;
  const cl_event *list;
  cl_event *event;  /* of the application, may be NULL */
  bool wants_event; /* of the library, in `made` */
  bool is_kept;     /* later commands wait for it */
  struct _cl_event *made;
  struct tps_reply reply;
};

cl_int tps__command_check(struct tps_command *command);
/* The message, to be ended by tps__command_end; NULL: `code` says why. */
struct tps_text *tps__command_begin(struct tps_command *command, cl_int *code);
cl_int tps__command_end(struct tps_command *command);
cl_int tps__same_context(cl_command_queue queue, const void *object, uint32_t kind, cl_int invalid);
/* What was refused since it was asked last. */
cl_int tps__queue_error(cl_command_queue queue);

cl_int tps__check_range(cl_mem buffer, size_t offset, size_t size);
cl_int tps__check_copy(cl_mem from, size_t from_offset, cl_mem into, size_t into_offset,
                       size_t size);
cl_int tps__check_rect(cl_mem buffer, const size_t *origin, const size_t *region, size_t row_pitch,
                       size_t slice_pitch);
cl_int tps__check_copy_rect(cl_mem from, cl_mem into, const size_t *from_origin,
                            const size_t *into_origin, const size_t *region, size_t from_row,
                            size_t from_slice, size_t into_row, size_t into_slice);
cl_int tps__check_fill(cl_mem buffer, const void *pattern, size_t pattern_size, size_t offset,
                       size_t size);
cl_int tps__check_migration(cl_uint count, const cl_mem *objects, cl_ulong flags);
cl_int tps__check_launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                         const size_t *offset, const size_t *global, const size_t *local);
cl_int tps__check_arguments(cl_kernel kernel);

/* ---- event.c */

/* In flight until the proxy says DONE. */
struct _cl_event *tps__event_new(cl_context context, cl_command_queue queue, cl_uint type);
struct _cl_event *tps__event_of(struct tps_link *link, uint64_t id); /* state is locked */
/* The end of a part or of all of it; state is locked. */
void tps__event_end(struct _cl_event *event, cl_int status, const cl_ulong times[4]);
void tps__event_done(struct _cl_event *event, cl_int status);
cl_int tps__event_wait(struct _cl_event *event);
/* The program hears that it failed: its queue needs not say so, too. State is locked. */
void tps__event_heard(const struct _cl_event *event);
/* Runs `call(data)` on the thread of callbacks. */
void tps__run_later(void (*call)(void *), void *data);

/* ---- memory.c and transfer.c */

extern const cl_ulong
    tps__host_access; /* flags that are checked here: a proxy reads what it moves */
cl_int tps__check_memory_flags(cl_ulong flags, const void *host_ptr);
cl_mem tps__memory_new(cl_context context, cl_uint type, cl_ulong flags, void *host_ptr);
void tps__memory_free(cl_mem memobj);
void tps__image_extent(cl_mem image, size_t most[3]); /* elements; 1 where it has no such side */

#endif
