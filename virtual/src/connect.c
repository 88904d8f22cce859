/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "trust.h"
#include "wire.h"

static int connect_unix(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t length = strlen(path);
  if (length >= sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  memcpy(address.sun_path, path, length);
  bool has_no_file = path[0] == '@';
  if (has_no_file)
    address.sun_path[0] = '\0';
  socklen_t size = has_no_file ? (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)
                               : (socklen_t)sizeof address;
  int handle = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (handle >= 0 && connect(handle, (struct sockaddr *)&address, size) == 0 &&
      tps_peer_is_mine(handle))
    return handle;
  if (handle >= 0)
    close(handle);
  return -1;
}

static int connect_tcp(const char *where) {
  char host[256];
  const char *colon = strrchr(where, ':');
  if (colon == NULL || (size_t)(colon - where) >= sizeof host) {
    errno = EINVAL;
    return -1;
  }
  size_t length = (size_t)(colon - where);
  bool is_bracketed = length > 1 && where[0] == '[' && where[length - 1] == ']';
  snprintf(host, sizeof host, "%.*s", (int)(is_bracketed ? length - 2 : length),
           where + (is_bracketed ? 1 : 0));
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *found = NULL;
  if (getaddrinfo(host, colon + 1, &hints, &found) != 0) {
    errno = EINVAL;
    return -1;
  }
  int handle = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const char *told = getenv("TOPOSEAT_CL_TIMEOUT");
  struct timeval limit = {.tv_sec = told != NULL ? strtol(told, NULL, 10) : 5};
  if (handle >= 0 && limit.tv_sec > 0)
    (void)setsockopt(handle, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  int failed = handle < 0 || connect(handle, found->ai_addr, found->ai_addrlen) != 0;
  int reason = errno == EINPROGRESS ? ETIMEDOUT : errno;
  freeaddrinfo(found);
  if (failed && handle >= 0)
    close(handle);
  errno = reason;
  return failed ? -1 : handle;
}

static int connect_to(const char *endpoint) {
  if (strncmp(endpoint, "unix:", 5) == 0)
    return connect_unix(endpoint + 5);
  if (strncmp(endpoint, "tcp:", 4) == 0)
    return connect_tcp(endpoint + 4);
  errno = EINVAL;
  return -1;
}

/* A socket that has greeted, or -1: `wrong` says what the other side did, or is NULL where errno
   says why there is none. */
static int reach_once(const char *endpoint, const unsigned char *key, const char **wrong) {
  int handle = connect_to(endpoint);
  *wrong = handle < 0 ? NULL : tps_greet(handle, key, true);
  if (handle >= 0 && *wrong != NULL) {
    close(handle);
    return -1;
  }
  return handle;
}

uint64_t tps_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

int tps_reach(const char *endpoint, const unsigned char key[TPS_KEY_BYTES], const char **wrong) {
  enum { TRIES_MS = 5000, MS = 1000000, LONGEST_MS = 400 };
  uint64_t since = tps_now_ns();
  for (unsigned pause_ms = 20;; pause_ms = pause_ms < LONGEST_MS ? 2 * pause_ms : pause_ms) {
    int handle = reach_once(endpoint, key, wrong);
    bool is_worth_it = *wrong == tps_no_answer || (*wrong == NULL && errno == ECONNRESET);
    if (handle >= 0)
      tps_tune_socket(handle);
    if (handle >= 0 || !is_worth_it || (tps_now_ns() - since) / MS >= TRIES_MS)
      return handle;
    unsigned own = (unsigned)getpid() % pause_ms; /* not in step with the other ranks */
    nanosleep(&(struct timespec){.tv_nsec = (long)(pause_ms + own) * MS}, NULL);
  }
}
