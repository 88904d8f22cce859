/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A connected socket. Who waits for an answer reads himself, which saves a change of threads; what
   comes when nobody waits is for a thread of the library, which `bell` (an epoll) wakes. */
#ifndef TOPOSEAT_VIRTUAL_CHANNEL_H
#define TOPOSEAT_VIRTUAL_CHANNEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "wire.h"

struct tps_channel;
struct tps_link;

/* What becomes of what arrives. */
struct tps_hearing {
  bool (*take_message)(struct tps_channel *); /* one; false: it is closed, or breaks the protocol */
  void (*link_died)(struct tps_link *);
};

struct tps_channel {
  int socket, bell;
  struct tps_inflow in;
  const struct tps_hearing *hearing;
  pthread_mutex_t reading;
  pthread_t receiver;
  bool is_closed;                  /* while reading is locked */
  _Atomic(struct tps_link *) link; /* NULL: it has another channel */
};

/* The link is told once it is dead. NULL: there are no threads or files left. */
struct tps_channel *tps__channel_new(struct tps_link *link, int socket,
                                     const struct tps_hearing *hearing);
void tps__channel_close(struct tps_channel *channel); /* of which nobody waits for an answer */
/* Reads as long as `is_awaited(what)`, unless another thread does. */
void tps__read(struct tps_channel *channel, bool (*is_awaited)(const void *), const void *what);

#endif
