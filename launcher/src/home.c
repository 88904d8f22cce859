/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "home.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
  HEADER_BYTES = 16,
  SHORT_BYTES = 2048,
  MAX_ADDRESS = 64,
  MAX_TOKEN = 128,
  /* An address that drops packets must not use up the time of those behind it. */
  ADDRESS_MS = 1500,
};

long tps_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- bytes and frames ---- */

static bool wait_for(int peer, short events, long deadline_ms) {
  for (;;) {
    long left = deadline_ms - tps_now_ms();
    if (left <= 0)
      return false;
    struct pollfd one = {.fd = peer, .events = events};
    int ready = poll(&one, 1, left > 60000 ? 60000 : (int)left);
    if (ready > 0)
      return true;
    if (ready < 0 && errno != EINTR)
      return false;
  }
}

static bool is_worth_waiting(void) {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

bool tps_send_bytes(int peer, const void *bytes, size_t length, long deadline_ms) {
  const char *at = bytes;
  while (length > 0) {
    ssize_t sent = send(peer, at, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      at += sent;
      length -= (size_t)sent;
    } else if (sent == 0 || !is_worth_waiting() || !wait_for(peer, POLLOUT, deadline_ms)) {
      return false;
    }
  }
  return true;
}

bool tps_receive_bytes(int peer, void *bytes, size_t length, long deadline_ms) {
  char *at = bytes;
  while (length > 0) {
    ssize_t got = recv(peer, at, length, MSG_DONTWAIT);
    if (got > 0) {
      at += got;
      length -= (size_t)got;
    } else if (got == 0 || !is_worth_waiting() || !wait_for(peer, POLLIN, deadline_ms)) {
      return false;
    }
  }
  return true;
}

static void put(unsigned char *at, uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; i--, value >>= 8)
    at[i] = (unsigned char)(value & 0xff);
}

static uint64_t get(const unsigned char *at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; i++)
    value = value << 8 | at[i];
  return value;
}

static void put_header(unsigned char *at, uint32_t kind, uint32_t number, uint64_t length) {
  put(at, kind, 4);
  put(at + 4, number, 4);
  put(at + 8, length, 8);
}

/* What is short goes at once with its header: every packet wakes the other side up. */
bool tps_send_frame(int peer, uint32_t kind, uint32_t number, const void *bytes, size_t length,
                    long deadline_ms) {
  unsigned char frame[HEADER_BYTES + SHORT_BYTES];
  put_header(frame, kind, number, length);
  size_t with_header = length <= SHORT_BYTES ? length : 0;
  if (with_header > 0)
    memcpy(frame + HEADER_BYTES, bytes, with_header);
  return tps_send_bytes(peer, frame, HEADER_BYTES + with_header, deadline_ms) &&
         (with_header == length || tps_send_bytes(peer, bytes, length, deadline_ms));
}

bool tps_receive_header(int peer, struct tps_frame *frame, long deadline_ms) {
  unsigned char header[HEADER_BYTES];
  if (!tps_receive_bytes(peer, header, sizeof header, deadline_ms))
    return false;
  frame->kind = (uint32_t)get(header, 4);
  frame->number = (uint32_t)get(header + 4, 4);
  frame->length = get(header + 8, 8);
  return true;
}

/* ---- connections ---- */

static int connect_to(const char *address, uint16_t port, long deadline_ms) {
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
  bool is_six = inet_pton(AF_INET6, address, &six.sin6_addr) == 1;
  if (!is_six && inet_pton(AF_INET, address, &four.sin_addr) != 1)
    return -1;
  int peer = socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (peer < 0)
    return -1;
  int done = is_six ? connect(peer, (const struct sockaddr *)&six, sizeof six)
                    : connect(peer, (const struct sockaddr *)&four, sizeof four);
  int cause = 0;
  socklen_t size = sizeof cause;
  if (done == 0 || (errno == EINPROGRESS && wait_for(peer, POLLOUT, deadline_ms) &&
                    getsockopt(peer, SOL_SOCKET, SO_ERROR, &cause, &size) == 0 && cause == 0))
    return peer;
  close(peer);
  return -1;
}

/* Other services may listen at an address that is not home's. */
static bool is_home(int peer, const char *token, size_t length, long deadline_ms) {
  struct tps_frame answer;
  return tps_send_frame(peer, TPS_HELLO, TPS_HOME_VERSION, token, length, deadline_ms) &&
         tps_receive_header(peer, &answer, deadline_ms) && answer.kind == TPS_WELCOME &&
         answer.number == TPS_HOME_VERSION && answer.length == 0;
}

/* Splits PORT:TOKEN:ADDRESSES; the address list, NULL if `words` is something else. */
static const char *split(const char *words, uint16_t *port, const char **token,
                         size_t *token_length) {
  char *end;
  unsigned long number = strtoul(words, &end, 10);
  if (end == words || *end != ':' || number == 0 || number > UINT16_MAX)
    return NULL;
  *port = (uint16_t)number;
  *token = end + 1;
  *token_length = strcspn(*token, ":");
  const char *colon = *token + *token_length;
  return *colon == ':' && *token_length > 0 && *token_length <= MAX_TOKEN ? colon + 1 : NULL;
}

struct home_words {
  uint16_t port;
  const char *token;
  size_t token_length;
  const char *addresses;
};

/* Tries every address once. `*is_busy`: something took the connection and did not greet in time. */
static int connect_once(const struct home_words *home, char address[MAX_ADDRESS], long patience_ms,
                        long deadline_ms, bool *is_busy) {
  *is_busy = false;
  for (const char *next = home->addresses; *next != '\0';) {
    size_t length = strcspn(next, ",");
    long now = tps_now_ms();
    long until = deadline_ms - now > patience_ms ? now + patience_ms : deadline_ms;
    snprintf(address, MAX_ADDRESS, "%.*s", (int)(length < MAX_ADDRESS ? length : 0), next);
    int peer = connect_to(address, home->port, until);
    if (peer >= 0 && is_home(peer, home->token, home->token_length, until))
      return peer;
    if (peer >= 0) {
      *is_busy = *is_busy || tps_now_ms() >= until;
      close(peer);
    }
    next += length + (next[length] == ',');
  }
  return -1;
}

int tps_home_connect(const char *words, char *address, size_t address_size, long deadline_ms) {
  struct home_words home;
  char one[MAX_ADDRESS];
  bool is_busy = true;
  home.addresses = split(words, &home.port, &home.token, &home.token_length);
  if (home.addresses == NULL)
    return -1;
  /* Home greets late while hundreds of nodes send to it: each time it is given longer. */
  for (long patience_ms = ADDRESS_MS; is_busy && tps_now_ms() < deadline_ms; patience_ms *= 2) {
    int peer = connect_once(&home, one, patience_ms, deadline_ms, &is_busy);
    if (peer >= 0) {
      if (address != NULL)
        snprintf(address, address_size, "%u:%.*s:%s", (unsigned)home.port, (int)home.token_length,
                 home.token, one);
      return peer;
    }
  }
  return -1;
}

/* ---- bundles ---- */

int tps_bundle_open(const char *words, const char *name, uint64_t length, long deadline_ms) {
  size_t name_length = strlen(name);
  int peer =
      name_length <= TPS_MAX_BUNDLE_NAME ? tps_home_connect(words, NULL, 0, deadline_ms) : -1;
  if (peer < 0)
    return -1;
  unsigned char begin[HEADER_BYTES + TPS_MAX_BUNDLE_NAME + 1];
  put_header(begin, TPS_BUNDLE, (uint32_t)name_length, name_length + length);
  snprintf((char *)begin + HEADER_BYTES, TPS_MAX_BUNDLE_NAME + 1, "%s", name);
  if (tps_send_bytes(peer, begin, HEADER_BYTES + name_length, deadline_ms))
    return peer;
  close(peer);
  return -1;
}

bool tps_bundle_close(int peer, long deadline_ms) {
  struct tps_frame answer;
  bool kept = tps_receive_header(peer, &answer, deadline_ms) && answer.kind == TPS_KEPT &&
              answer.number == 1;
  close(peer);
  return kept;
}

bool tps_home_deliver(const char *words, const char *name, const void *bytes, size_t length,
                      int timeout_ms) {
  long deadline_ms = tps_now_ms() + timeout_ms;
  int peer = tps_bundle_open(words, name, length, deadline_ms);
  if (peer < 0)
    return false;
  if (tps_send_bytes(peer, bytes, length, deadline_ms))
    return tps_bundle_close(peer, deadline_ms);
  close(peer);
  return false;
}
