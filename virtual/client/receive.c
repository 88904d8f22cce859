/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the proxy says is not trusted with more than what was asked for: ids are looked up, bytes go
   only where a read in flight wants them. */
#include "receive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "move.h"
#include "report.h"

/* A device that the process has, and not one that it was about to move to. */
static void say_lost(const struct tps_link *link) {
  cl_device_id *devices = NULL;
  for (cl_uint i = 0, count = tps__known_devices(&devices); i < count; i++) {
    char name[256] = "";
    if (devices[i]->base.link != link)
      continue;
    (void)tps__clGetDeviceInfo(devices[i], CL_DEVICE_NAME, sizeof name, name, NULL);
    fprintf(stderr,
            "toposeat: error: lost the borrowed device %s of %s: its proxy ended, or the way to it "
            "broke\n",
            name, link->host);
  }
}

static void link_died(struct tps_link *link) {
  static const cl_ulong never[4] = {0};
  if (!atomic_load(&tps__is_leaving))
    say_lost(link);
  pthread_mutex_lock(&link->state);
  atomic_store(&link->is_dead, true);
  for (uint32_t i = 0; i < link->slot_count; i++)
    if (link->slots[i].event != NULL)
      tps__event_end(link->slots[i].event, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, never);
  pthread_cond_broadcast(&link->changed);
  pthread_mutex_unlock(&link->state);
  if (!atomic_load(&tps__is_leaving))
    tps__report(); /* a process may end without its destructors */
}

static bool take_reply(struct tps_link *link, uint64_t ticket, unsigned char *body, size_t length) {
  pthread_mutex_lock(&link->state);
  struct tps_reply **at = &link->replies;
  while (*at != NULL && (*at)->ticket != ticket)
    at = &(*at)->next;
  struct tps_reply *reply = *at;
  if (reply != NULL) {
    *at = reply->next;
    reply->body = body;
    reply->in = (struct tps_cursor){body, body + length, false};
    reply->code = (cl_int)tps_take(&reply->in);
    atomic_store(&reply->is_here, true);
    pthread_cond_broadcast(&link->changed);
  }
  pthread_mutex_unlock(&link->state);
  return reply != NULL;
}

static void take_done(struct tps_link *link, struct tps_cursor *in) {
  uint64_t id = tps_take(in);
  cl_int status = (cl_int)tps_take(in);
  cl_ulong times[4];
  for (int i = 0; i < 4; i++)
    times[i] = tps_take(in);
  pthread_mutex_lock(&link->state);
  struct _cl_event *event = tps__event_of(link, id);
  if (event != NULL) {
    tps__event_end(event, status > 0 ? CL_OUT_OF_RESOURCES : status, times);
    if (link->waiting > 0)
      pthread_cond_broadcast(&link->changed);
  }
  pthread_mutex_unlock(&link->state);
}

static bool take_failed(struct tps_link *link, struct tps_cursor *in) {
  uint64_t id = tps_take(in);
  cl_int code = (cl_int)tps_take(in);
  uint64_t refused = tps_take(in);
  pthread_mutex_lock(&link->state);
  const struct _cl_event *event = tps__event_of(link, refused);
  if (event != NULL && event->whole != NULL)
    refused = event->whole->base.id;
  for (cl_command_queue queue = link->queues; queue != NULL; queue = queue->next) {
    if (queue->base.id != id && id != 0)
      continue;
    bool is_first = atomic_load(&queue->error) == CL_SUCCESS;
    queue->refused = is_first || queue->refused == refused ? refused : 0;
    if (is_first)
      atomic_store(&queue->error, code);
  }
  pthread_mutex_unlock(&link->state);
  return code < 0;
}

/* Straight into the user's memory, row by row. */
static bool take_data(struct tps_link *link, struct tps_inflow *in, size_t length) {
  uint64_t words[2];
  if (length < sizeof words || tps_inflow_read(in, words, sizeof words, NULL, NULL) != 0)
    return false;
  length -= sizeof words;
  pthread_mutex_lock(&link->state);
  struct _cl_event *event = tps__event_of(link, words[0]);
  struct tps_layout layout = {0};
  bool fits = event != NULL && words[1] <= event->expected && length <= event->expected - words[1];
  if (fits)
    layout = event->layout;
  pthread_mutex_unlock(&link->state);
  if (!fits)
    return false;
  size_t at = (size_t)words[1];
  while (length > 0) {
    size_t piece = length;
    char *place = tps__place(&layout, at, &piece);
    if (tps_inflow_read(in, place, piece, NULL, NULL) != 0)
      return false;
    at += piece;
    length -= piece;
  }
  return true;
}

static bool take_message(struct tps_channel *channel) {
  struct tps_inflow *in = &channel->in;
  struct tps_head head;
  if (tps_inflow_read(in, &head, sizeof head, NULL, NULL) != 0 || head.length > TPS_LONGEST)
    return false;
  struct tps_link *link = atomic_load_explicit(&channel->link, memory_order_acquire);
  if (link == NULL)
    return false;
  atomic_fetch_add_explicit(&link->bytes_from, sizeof head + head.length, memory_order_relaxed);
  if (head.call == TPS_DATA)
    return take_data(link, in, head.length);
  unsigned char here[64], *body = here;
  if (head.length > sizeof here || head.call == TPS_REPLY)
    body = malloc(head.length + 1);
  if (body == NULL || tps_inflow_read(in, body, head.length, NULL, NULL) != 0) {
    if (body != here)
      free(body);
    return false;
  }
  struct tps_cursor cursor = {body, body + head.length, false};
  bool is_good = true, is_taken = false;
  switch (head.call) {
  case TPS_REPLY:
    is_good = is_taken = take_reply(link, head.ticket, body, head.length);
    break;
  case TPS_DONE:
    take_done(link, &cursor);
    break;
  case TPS_FAILED:
    is_good = take_failed(link, &cursor);
    break;
  case TPS_MOVE:
    tps__move(link, &cursor);
    break;
  case TPS_PRINTED:
    fwrite(body, 1, head.length, stdout);
    fflush(stdout);
    break;
  default:
    is_good = false;
  }
  if (body != here && !is_taken)
    free(body);
  return is_good && !cursor.bad;
}

const struct tps_hearing tps__hearing = {take_message, link_died};
