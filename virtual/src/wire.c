/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

void *tps_room(struct tps_text *out, size_t length) {
  size_t whole = out->length + length + TPS_WORD;
  if (out->capacity < whole || out->data == NULL) {
    size_t capacity = out->capacity < 1024 ? 1024 : out->capacity;
    while (capacity < whole)
      capacity *= 2;
    unsigned char *grown = realloc(out->data, capacity);
    if (grown == NULL)
      abort();
    out->data = grown;
    out->capacity = capacity;
  }
  void *room = out->data + out->length;
  out->length += length;
  return room;
}

void tps_put_bytes(struct tps_text *out, const void *bytes, size_t length) {
  tps_put(out, length);
  size_t filled = (length + TPS_WORD - 1) / TPS_WORD * TPS_WORD;
  unsigned char *room = tps_room(out, filled);
  if (length > 0)
    memcpy(room, bytes, length);
  memset(room + length, 0, filled - length);
}

void tps_put_words(struct tps_text *out, const size_t *words, size_t count) {
  if (words == NULL)
    count = 0;
  tps_put(out, count);
  for (size_t i = 0; i < count; i++)
    tps_put(out, words[i]);
}

uint64_t tps_take(struct tps_cursor *in) {
  uint64_t word = 0;
  if ((size_t)(in->end - in->at) < sizeof word) {
    in->bad = true;
    in->at = in->end;
    return 0;
  }
  memcpy(&word, in->at, sizeof word);
  in->at += sizeof word;
  return word;
}

const unsigned char *tps_take_bytes(struct tps_cursor *in, size_t *length) {
  uint64_t told = tps_take(in);
  const unsigned char *bytes = in->at;
  if (told > (uint64_t)(in->end - in->at)) {
    in->bad = true;
    told = 0;
  }
  *length = (size_t)told;
  size_t filled = ((size_t)told + TPS_WORD - 1) / TPS_WORD * TPS_WORD;
  in->at = filled > (size_t)(in->end - in->at) ? in->end : in->at + filled;
  return bytes;
}

static void set(int socket, int level, int option, int value) {
  (void)setsockopt(socket, level, option, &value,
                   sizeof value); /* a Unix socket has none of them */
}

void tps_tune_socket(int socket) {
  enum { IDLE_S = 10, BETWEEN_S = 5, PROBES = 4, GONE_MS = 30000 };
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, BETWEEN_S);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, GONE_MS);
}

int tps_send_all(int socket, struct iovec *parts, int count) {
  while (count > 0) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0)
      return -1;
    size_t left = (size_t)sent;
    for (; count > 0 && left >= parts->iov_len; parts++, count--)
      left -= parts->iov_len;
    if (count > 0) {
      parts->iov_base = (char *)parts->iov_base + left;
      parts->iov_len -= left;
    }
  }
  return 0;
}

int tps_receive_all(int socket, void *data, size_t length) {
  for (char *at = data; length > 0;) {
    ssize_t got = recv(socket, at, length, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return -1;
    at += got;
    length -= (size_t)got;
  }
  return 0;
}

/* One piece; what is long goes to its place, what is short comes with what follows it. */
static ssize_t receive(struct tps_inflow *in, unsigned char *data, size_t length, int flags) {
  if (length >= TPS_INFLOW)
    return recv(in->socket, data, length, flags);
  if (in->data == NULL)
    in->data = malloc(TPS_INFLOW);
  if (in->data == NULL)
    return -1;
  struct iovec parts[] = {{data, length}, {in->data, TPS_INFLOW}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  ssize_t got = recvmsg(in->socket, &message, flags);
  in->at = 0;
  in->filled = got > (ssize_t)length ? (size_t)got - length : 0;
  return got > (ssize_t)length ? (ssize_t)length : got;
}

int tps_inflow_read(struct tps_inflow *in, void *data, size_t length, void (*is_idle)(void *),
                    void *context) {
  unsigned char *at = data;
  size_t ready = in->filled - in->at < length ? in->filled - in->at : length;
  if (ready > 0)
    memcpy(at, in->data + in->at, ready);
  in->at += ready;
  at += ready;
  length -= ready;
  while (length > 0) {
    ssize_t got = receive(in, at, length, is_idle != NULL ? MSG_DONTWAIT : 0);
    if (got < 0 && is_idle != NULL && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      is_idle(context);
      is_idle = NULL;
      continue;
    }
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return -1;
    at += got;
    length -= (size_t)got;
  }
  return 0;
}
