/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "link.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "event.h"

enum { BATCH = 16 << 10, SMALL = 4 << 10 };

bool tps__is_strict;
atomic_bool tps__is_leaving;
static struct tps_link *links;
static struct {
  sem_t wanted;
  atomic_bool is_awake;
} hurry; /* see hurry_along */

void tps__note_wait(struct tps_link *link, uint64_t since_ns) {
  atomic_fetch_add_explicit(&link->waits, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&link->waited_ns, tps_now_ns() - since_ns, memory_order_relaxed);
}

uint64_t tps__new_id(struct tps_link *link) { return atomic_fetch_add(&link->ids, 1); }

static void *hurry_along(void *nothing);

/* ---- Connecting */

static const char *hint_of(int reason) {
  if (reason == ETIMEDOUT || reason == EHOSTUNREACH)
    return "a firewall between the nodes, or the wrong network: toposeat lend --network";
  return "is `toposeat lend` still running?";
}

static int greet(const char *endpoint) {
  unsigned char key[TPS_KEY_BYTES];
  const char *text = getenv("TOPOSEAT_CL_KEY");
  if (text == NULL || !tps_read_key(text, key)) {
    fprintf(stderr,
            "toposeat: error: no key for %s in TOPOSEAT_CL_KEY\n"
            "hint: start the program with `toposeat borrow`\n",
            endpoint);
    return -1;
  }
  const char *wrong = NULL;
  int handle = tps_reach(endpoint, key, &wrong), reason = errno;
  explicit_bzero(key, sizeof key);
  if (handle >= 0)
    return handle;
  if (wrong == NULL || wrong == tps_no_answer)
    fprintf(stderr, "toposeat: error: the borrowed device at %s does not answer: %s\nhint: %s\n",
            endpoint, wrong == NULL ? strerror(reason) : wrong,
            hint_of(wrong == NULL ? reason : 0));
  else
    fprintf(stderr,
            "toposeat: error: the borrowed device at %s is refused: %s\n"
            "hint: lend and borrow with one toposeat and one key: start both again\n",
            endpoint, wrong);
  return -1;
}

/* In a child of fork there is no thread that receives, and the socket is the parent's. */
static void leave_to_parent(void) {
  for (struct tps_link *link = links; link != NULL; link = link->next) {
    close(link->channel->socket);
    close(link->channel->bell);
    link->channel->socket = -1;
    atomic_store(&link->is_dead, true);
    atomic_store(&hurry.is_awake, true);
    pthread_mutex_init(&link->sending, NULL);
    pthread_mutex_init(&link->state, NULL);
    pthread_cond_init(&link->changed, NULL);
    for (uint32_t i = 0; i < link->slot_count; i++)
      if (link->slots[i].event != NULL)
        atomic_store(&link->slots[i].event->status, CL_OUT_OF_RESOURCES);
  }
}

void tps__leave(void) {
  for (struct tps_link *link = links; link != NULL; link = link->next) {
    if (atomic_load(&link->is_dead))
      continue;
    tps__flush(link);
    shutdown(link->channel->socket, SHUT_WR);
  }
}

struct tps_link *tps__link_new(int socket, const struct tps_hearing *hearing) {
  struct tps_link *link = calloc(1, sizeof *link);
  if (link == NULL)
    return NULL;
  link->free_slot = UINT32_MAX;
  atomic_store(&link->ids, 1U << 20);
  pthread_mutex_init(&link->sending, NULL);
  pthread_mutex_init(&link->state, NULL);
  pthread_cond_init(&link->changed, NULL);
  link->channel = tps__channel_new(link, socket, hearing);
  if (link->channel != NULL)
    return link;
  free(link);
  return NULL;
}

struct tps_link *tps__connect(const char *endpoint, const struct tps_hearing *hearing) {
  int handle = greet(endpoint);
  struct tps_link *link = handle < 0 ? NULL : tps__link_new(handle, hearing);
  if (link != NULL)
    link->endpoint = strdup(endpoint);
  else if (handle >= 0)
    close(handle);
  return link;
}

struct tps_link *tps__link(const char *endpoint, const struct tps_hearing *hearing) {
  for (struct tps_link *link = links; link != NULL; link = link->next)
    if (strcmp(link->endpoint, endpoint) == 0)
      return link;
  if (links == NULL) {
    pthread_t thread;
    pthread_atfork(NULL, NULL, leave_to_parent);
    sem_init(&hurry.wanted, 0, 0);
    if (pthread_create(&thread, NULL, hurry_along, NULL) == 0)
      pthread_detach(thread);
  }
  struct tps_link *link = tps__connect(endpoint, hearing);
  if (link == NULL)
    return NULL;
  link->next = links;
  links = link;
  return link;
}

/* ---- Sending */

void tps__lock(struct tps_link *link) {
  atomic_fetch_add_explicit(&link->queued, 1, memory_order_relaxed);
  pthread_mutex_lock(&link->sending);
  atomic_fetch_sub_explicit(&link->queued, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&link->turns, 1, memory_order_relaxed);
}

/* Others get their turn: a mutex alone would be taken again by who gave it up. */
static void give_way(struct tps_link *link) {
  pthread_mutex_unlock(&link->sending);
  unsigned turn = atomic_load_explicit(&link->turns, memory_order_relaxed);
  while (atomic_load_explicit(&link->queued, memory_order_relaxed) > 0 &&
         atomic_load_explicit(&link->turns, memory_order_relaxed) == turn)
    sched_yield();
  tps__lock(link);
}

static void send_parts(struct tps_link *link, const void *bytes, size_t length) {
  struct iovec parts[] = {{link->batch.data, link->batch.length}, {(void *)bytes, length}};
  atomic_fetch_add_explicit(&link->bytes_to, link->batch.length + length, memory_order_relaxed);
  if (!atomic_load(&link->is_dead) &&
      tps_send_all(link->channel->socket, parts, length > 0 ? 2 : 1) != 0)
    shutdown(link->channel->socket, SHUT_RDWR); /* the receiver tells everybody */
  link->batch.length = 0;
}

bool tps__send_batch(struct tps_link *link) {
  bool is_some = link->batch.length > 0;
  if (is_some)
    send_parts(link, NULL, 0);
  return is_some;
}

bool tps__flush(struct tps_link *link) {
  tps__lock(link);
  bool is_some = tps__send_batch(link);
  pthread_mutex_unlock(&link->sending);
  return is_some;
}

static bool flush_all(void) {
  bool is_some = false;
  for (struct tps_link *link = links; link != NULL; link = link->next)
    is_some = tps__flush(link) || is_some;
  return is_some;
}

/* An application that computes or sleeps between enqueue and wait finds its commands done
 * meanwhile. */
static void *hurry_along(void *nothing) {
  enum { TICK_NS = 1000000, IDLE_TICKS = 10 };
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  for (;;) {
    while (sem_wait(&hurry.wanted) != 0)
      ;
    for (int idle = 0; idle < IDLE_TICKS; idle++) {
      nanosleep(&(struct timespec){.tv_nsec = TICK_NS}, NULL);
      if (flush_all())
        idle = 0;
    }
    atomic_store(&hurry.is_awake, false);
    (void)flush_all(); /* of who saw it awake */
  }
  return nothing;
}

struct tps_text *tps__begin_locked(struct tps_link *link, uint32_t call, struct tps_reply *reply) {
  struct tps_head head = {.call = call};
  if (reply != NULL) {
    *reply = (struct tps_reply){0};
    pthread_mutex_lock(&link->state);
    head.ticket = reply->ticket = ++link->tickets;
    reply->next = link->replies;
    link->replies = reply;
    pthread_mutex_unlock(&link->state);
  }
  atomic_fetch_add_explicit(&link->calls, 1, memory_order_relaxed);
  link->head = link->batch.length;
  memcpy(tps_room(&link->batch, sizeof head), &head, sizeof head);
  return &link->batch;
}

/* The message's head learns its length. */
static void close_message(struct tps_link *link, size_t raw) {
  uint32_t length = (uint32_t)(link->batch.length - link->head - sizeof(struct tps_head) + raw);
  memcpy(link->batch.data + link->head, &length, sizeof length);
}

void tps__end_locked(struct tps_link *link) {
  close_message(link, 0);
  if (link->batch.length > BATCH)
    send_parts(link, NULL, 0);
  else if (!atomic_load_explicit(&hurry.is_awake, memory_order_relaxed) &&
           !atomic_exchange(&hurry.is_awake, true))
    sem_post(&hurry.wanted);
}

void tps__end(struct tps_link *link) {
  tps__end_locked(link);
  pthread_mutex_unlock(&link->sending);
}

static bool is_awaited(const void *reply) {
  return !atomic_load(&((const struct tps_reply *)reply)->is_here);
}

cl_int tps__await_sent(struct tps_link *link, struct tps_reply *reply) {
  tps__read(link->channel, is_awaited, reply);
  pthread_mutex_lock(&link->state);
  link->waiting++;
  while (is_awaited(reply) && !atomic_load(&link->is_dead))
    pthread_cond_wait(&link->changed, &link->state);
  link->waiting--;
  if (is_awaited(reply)) {
    reply->code = CL_OUT_OF_RESOURCES;
    struct tps_reply **at = &link->replies;
    while (*at != NULL && *at != reply)
      at = &(*at)->next;
    if (*at == reply)
      *at = reply->next;
  }
  pthread_mutex_unlock(&link->state);
  return reply->code;
}

cl_int tps__await(struct tps_link *link, struct tps_reply *reply) {
  uint64_t since = tps_now_ns();
  tps__flush(link);
  cl_int code = tps__await_sent(link, reply);
  tps__note_wait(link, since);
  return code;
}

cl_int tps__answer(struct tps_link *link, struct tps_reply *reply) {
  tps__end(link);
  return tps__await(link, reply);
}

cl_int tps__done(struct tps_link *link, struct tps_reply *reply) {
  tps__end(link);
  cl_int code = reply == NULL ? CL_SUCCESS : tps__await(link, reply);
  if (reply != NULL)
    tps__reply_free(reply);
  return code;
}

void tps__reply_free(struct tps_reply *reply) { free(reply->body); }

/* ---- Bulk */

char *tps__place(const struct tps_layout *layout, size_t at, size_t *length) {
  size_t row = at / layout->row, in_row = at % layout->row;
  if (*length > layout->row - in_row)
    *length = layout->row - in_row;
  return layout->base + row / layout->rows * layout->slice_pitch +
         row % layout->rows * layout->row_pitch + in_row;
}

/* `length` packed bytes of the layout from `offset` on: in place where they lie together. */
static const char *packed(const struct tps_layout *layout, size_t offset, size_t length,
                          char *copy) {
  if (layout->rows * layout->slices == 1)
    return layout->base + offset;
  for (size_t done = 0; done < length;) {
    size_t piece = length - done;
    const char *place = tps__place(layout, offset + done, &piece);
    memcpy(copy + done, place, piece);
    done += piece;
  }
  return copy;
}

uint64_t tps__upload(struct tps_link *link, const struct tps_layout *layout) {
  size_t total = layout->row * layout->rows * layout->slices;
  if (total == 0)
    return 0;
  uint64_t id = tps__new_id(link);
  char *copy =
      layout->rows * layout->slices == 1 ? NULL : malloc(total < TPS_FRAME ? total : TPS_FRAME);
  for (size_t offset = 0, length = 0; offset < total; offset += length) {
    length = total - offset < TPS_FRAME ? total - offset : TPS_FRAME;
    const char *bytes = packed(layout, offset, length, copy);
    if (offset == 0) {
      tps__lock(link);
      tps__begin_locked(link, TPS_UPLOAD, NULL);
      link->uploads++;
    } else {
      struct tps_head head = {.call = TPS_UPLOAD};
      give_way(link);
      link->head = link->batch.length;
      memcpy(tps_room(&link->batch, sizeof head), &head, sizeof head);
    }
    tps_put(&link->batch, id);
    tps_put(&link->batch, total);
    tps_put(&link->batch, offset);
    close_message(link, length);
    if (length > SMALL || link->batch.length > BATCH)
      send_parts(link, bytes, length);
    else
      memcpy(tps_room(&link->batch, length), bytes, length);
  }
  pthread_mutex_unlock(&link->sending);
  free(copy);
  return id;
}
