/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Messages over the links' sockets, with time limits; frees are answered wherever one waits. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "link.h"

enum { MAGIC = 0x74646331, MAX_LINKS = 512 };

double tdc_now(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

tdc_result tdc_break(tdc_link *link, tdc_result result) {
  if (link->fault == TDC_OK)
    link->fault = result;
  if (link->out.head)
    atomic_store(&link->out.head->failed, 1);
  if (link->in.head)
    atomic_store(&link->in.head->failed, 1);
  return result;
}

bool tdc_peer_lives(tdc_link *link) {
  struct pollfd end = {.fd = link->socket, .events = POLLRDHUP};
  return poll(&end, 1, 0) >= 0 && !(end.revents & (POLLHUP | POLLERR | POLLRDHUP));
}

/* All bytes of one message, or an error. Messages are small: a partial one is soon whole. */
static tdc_result move(tdc_link *link, void *bytes, size_t size, bool out) {
  char *at = bytes;
  const double deadline = tdc_now() + link->context->options.timeout_s;
  while (size) {
    const ssize_t moved = out ? send(link->socket, at, size, MSG_NOSIGNAL | MSG_DONTWAIT)
                              : recv(link->socket, at, size, MSG_DONTWAIT);
    if (moved > 0) {
      at += moved;
      size -= (size_t)moved;
      continue;
    }
    if (moved == 0 || (errno != EAGAIN && errno != EINTR))
      return tdc_break(link, TDC_PEER_GONE);
    if (tdc_now() > deadline)
      return tdc_break(link, TDC_TIMEOUT);
    struct pollfd end = {.fd = link->socket, .events = out ? POLLOUT : POLLIN};
    (void)poll(&end, 1, 50);
  }
  return TDC_OK;
}

tdc_result tdc_say(tdc_link *link, const struct tdc_message *message) {
  if (link->fault != TDC_OK)
    return link->fault;
  struct tdc_message said = *message;
  said.magic = MAGIC;
  return move(link, &said, sizeof said, true);
}

static tdc_result answer_free(tdc_link *link, const struct tdc_message *message) {
  tdc_close_buffer(link, message->shared.base, message->shared.buffer_id);
  const struct tdc_message answer = {.kind = TDC_FREED};
  return tdc_say(link, &answer);
}

/* Reads one message that has come; keeps it unless it can be answered here. */
static tdc_result take(tdc_link *link) {
  struct tdc_message message;
  const tdc_result result = move(link, &message, sizeof message, false);
  if (result != TDC_OK)
    return result;
  if (message.magic != MAGIC)
    return tdc_break(link, TDC_PROTOCOL);
  if (message.kind == TDC_FREE)
    return answer_free(link, &message);
  if (message.kind == TDC_FREED) {
    if (link->unanswered_frees == 0)
      return tdc_break(link, TDC_PROTOCOL);
    --link->unanswered_frees;
    return TDC_OK;
  }
  if (link->has_message) /* the other side waits for an answer after each of these */
    return tdc_break(link, TDC_PROTOCOL);
  link->message = message;
  link->has_message = true;
  return TDC_OK;
}

tdc_result tdc_pump(tdc_context *context, double seconds) {
  struct pollfd ends[MAX_LINKS];
  tdc_link *of_end[MAX_LINKS];
  nfds_t count = 0;
  for (tdc_link *link = context->links; link && count < MAX_LINKS; link = link->next)
    if (link->fault == TDC_OK) {
      ends[count] = (struct pollfd){.fd = link->socket, .events = POLLIN};
      of_end[count++] = link;
    }
  const int ready = poll(ends, count, seconds > 0 ? (int)(seconds * 1e3) + 1 : 0);
  if (ready < 0 && errno != EINTR)
    return TDC_MEMORY;
  for (nfds_t i = 0; ready > 0 && i < count; ++i)
    if (ends[i].revents)
      (void)take(of_end[i]); /* what is wrong with a link is known by whoever uses it */
  return TDC_OK;
}

tdc_result tdc_hear(tdc_link *link, enum tdc_kind kind, enum tdc_kind or_kind,
                    struct tdc_message *message) {
  const double deadline = tdc_now() + link->context->options.timeout_s;
  while (!link->has_message) {
    const double left = deadline - tdc_now();
    if (link->fault != TDC_OK)
      return link->fault;
    if (left <= 0)
      return tdc_break(link, TDC_TIMEOUT);
    const tdc_result result = tdc_pump(link->context, left < 0.2 ? left : 0.2);
    if (result != TDC_OK)
      return result;
  }
  link->has_message = false;
  *message = link->message;
  if (message->kind != (uint32_t)kind && message->kind != (uint32_t)or_kind)
    return tdc_break(link, TDC_PROTOCOL);
  return TDC_OK;
}
