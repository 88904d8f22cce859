/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The ends of commands, and those of the user. */
#ifndef TOPOSEAT_VIRTUAL_EVENT_H
#define TOPOSEAT_VIRTUAL_EVENT_H

#include "device.h"

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

/* In flight until the proxy says DONE. */
struct _cl_event *tps__event_new(cl_context context, cl_command_queue queue, cl_uint type);
struct _cl_event *tps__event_of(struct tps_link *link, uint64_t id); /* state is locked */
/* The end of a part or of all of it; state is locked. */
void tps__event_end(struct _cl_event *event, cl_int status, const cl_ulong times[4]);
cl_int tps__event_wait(struct _cl_event *event);
/* Runs `call(data)` on the thread of callbacks. */
void tps__run_later(void (*call)(void *), void *data);

#endif
