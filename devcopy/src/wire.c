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

/* Room for one file beside the bytes. */
union envelope {
  struct cmsghdr head;
  char bytes[CMSG_SPACE(sizeof(int))];
};

static ssize_t send_part(int socket, const void *bytes, size_t size, int file) {
  union envelope control = {0};
  struct iovec part = {(void *)(uintptr_t)bytes, size};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (file >= 0) {
    message.msg_control = &control;
    message.msg_controllen = sizeof control.bytes;
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(&control.head), &file, sizeof file);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static ssize_t receive_part(int socket, void *bytes, size_t size, int *file) {
  union envelope control = {0};
  struct iovec part = {bytes, size};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof control.bytes};
  const ssize_t got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const struct cmsghdr *head = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
  if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
      head->cmsg_len == CMSG_LEN(sizeof *file)) {
    if (*file >= 0)
      (void)close(*file);
    memcpy(file, CMSG_DATA(head), sizeof *file);
  }
  return got;
}

/* After a part that moved nothing: waits a little, or says why not. */
static tdc_result wait_for_part(tdc_link *link, ssize_t moved, short event, double deadline) {
  if (moved == 0 || (errno != EAGAIN && errno != EINTR))
    return tdc_break(link, TDC_PEER_GONE);
  if (tdc_now() > deadline)
    return tdc_break(link, TDC_TIMEOUT);
  struct pollfd end = {.fd = link->socket, .events = event};
  (void)poll(&end, 1, 50);
  return TDC_OK;
}

tdc_result tdc_move_out(tdc_link *link, const void *bytes, size_t size, int file) {
  const char *at = bytes;
  const double deadline = tdc_now() + link->context->options.timeout_s;
  while (size) {
    const ssize_t moved = send_part(link->socket, at, size, file);
    if (moved > 0) {
      at += moved;
      size -= (size_t)moved;
      file = -1; /* it went with the first byte */
      continue;
    }
    const tdc_result result = wait_for_part(link, moved, POLLOUT, deadline);
    if (result != TDC_OK)
      return result;
  }
  return TDC_OK;
}

/* Messages are small: a partial one is soon whole. */
tdc_result tdc_move_in(tdc_link *link, void *bytes, size_t size, int *file) {
  char *at = bytes;
  const double deadline = tdc_now() + link->context->options.timeout_s;
  *file = -1;
  while (size) {
    const ssize_t moved = receive_part(link->socket, at, size, file);
    if (moved > 0) {
      at += moved;
      size -= (size_t)moved;
      continue;
    }
    const tdc_result result = wait_for_part(link, moved, POLLIN, deadline);
    if (result != TDC_OK) {
      if (*file >= 0)
        (void)close(*file);
      *file = -1;
      return result;
    }
  }
  return TDC_OK;
}

tdc_result tdc_say(tdc_link *link, const struct tdc_message *message, int file) {
  if (link->fault != TDC_OK)
    return link->fault;
  struct tdc_message said = *message;
  said.magic = MAGIC;
  if (file >= 0)
    said.flags |= TDC_WITH_FILE;
  return tdc_move_out(link, &said, sizeof said, file);
}

void tdc_drop_file(tdc_link *link) {
  if (link->file >= 0)
    (void)close(link->file);
  link->file = -1;
}

static tdc_result answer_free(tdc_link *link, const struct tdc_message *message) {
  tdc_close_buffer(link, message->shared.base, message->shared.buffer_id);
  const struct tdc_message answer = {.kind = TDC_FREED};
  return tdc_say(link, &answer, -1);
}

/* Answers a message, or keeps it for this link's user. */
static tdc_result accept_message(tdc_link *link, const struct tdc_message *message) {
  if (message->kind == TDC_FREE)
    return answer_free(link, message);
  if (message->kind == TDC_FREED) {
    if (link->unanswered_frees == 0)
      return tdc_break(link, TDC_PROTOCOL);
    --link->unanswered_frees;
    return TDC_OK;
  }
  if (link->has_message) /* the other side waits for an answer after each of these */
    return tdc_break(link, TDC_PROTOCOL);
  link->message = *message;
  link->has_message = true;
  return TDC_OK;
}

/* Reads one message that has come. */
static tdc_result take(tdc_link *link) {
  struct tdc_message message;
  int file = -1;
  const tdc_result result = tdc_move_in(link, &message, sizeof message, &file);
  if (result != TDC_OK)
    return result;
  if (file >= 0) {
    tdc_drop_file(link);
    link->file = file;
  }
  if (message.magic != MAGIC || (file >= 0) != ((message.flags & TDC_WITH_FILE) != 0))
    return tdc_break(link, TDC_PROTOCOL);
  return accept_message(link, &message);
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
