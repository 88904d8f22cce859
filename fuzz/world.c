/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_PEERS = 4096, MOST_POLLS = 100000 };

static const struct fuzz_saying *next_saying;
static size_t sayings_left, guests_left;
static int peers[MOST_PEERS];
static size_t peer_count;
static long long now_ns;
static unsigned long polls; /* of this world */
static bool name_is_taken;

void fuzz_world_begin(const struct fuzz_saying *sayings, size_t count, size_t guests, bool is_led) {
  next_saying = sayings;
  sayings_left = count;
  guests_left = guests;
  name_is_taken = is_led;
  polls = 0;
}

void fuzz_world_end(void) {
  while (peer_count > 0)
    close(peers[--peer_count]);
  fuzz_world_begin(NULL, 0, 0, false);
}

/* The end of a connection at which the next saying arrives; -1: nobody is there. */
static int new_connection(void) {
  int ends[2];
  if (sayings_left == 0 || peer_count == MOST_PEERS ||
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
    return -1;
  peers[peer_count++] = ends[1];
  ssize_t sent = send(ends[1], next_saying->bytes, next_saying->length, MSG_NOSIGNAL);
  (void)sent; /* what does not fit is not said */
  shutdown(ends[1], SHUT_WR);
  next_saying += 1;
  sayings_left -= 1;
  return ends[0];
}

/* At a name of the kernel's choice: targets may run side by side. */
int fuzz_bind(int own, const struct sockaddr *address, socklen_t size) {
  (void)size;
  if (!name_is_taken)
    return bind(own, address, sizeof address->sa_family);
  errno = EADDRINUSE;
  return -1;
}

int fuzz_connect(int own, const struct sockaddr *address, socklen_t size) {
  (void)address, (void)size;
  int other = new_connection();
  if (other < 0) {
    errno = ECONNREFUSED;
    return -1;
  }
  dup2(other, own);
  close(other);
  return 0;
}

int fuzz_accept4(int listener, struct sockaddr *address, socklen_t *size, int flags) {
  (void)listener, (void)address, (void)size, (void)flags;
  int peer = guests_left > 0 ? new_connection() : -1;
  guests_left -= guests_left > 0;
  if (peer < 0)
    errno = EAGAIN;
  return peer;
}

static bool is_listener(int handle) {
  int listens = 0;
  socklen_t size = sizeof listens;
  return handle >= 0 && getsockopt(handle, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 &&
         listens != 0;
}

int fuzz_poll(struct pollfd *all, nfds_t count, int timeout_ms) {
  if (timeout_ms < 0 || ++polls > MOST_POLLS) /* nothing of the launcher waits for ever, or spins */
    abort();
  int ready = poll(all, count, 0);
  for (nfds_t i = 0; i < count; i++)
    if (guests_left > 0 && all[i].revents == 0 && is_listener(all[i].fd)) {
      all[i].revents = POLLIN;
      ready += 1;
    }
  if (ready == 0)
    now_ns += timeout_ms * 1000000LL;
  return ready;
}

int fuzz_clock_gettime(clockid_t clock, struct timespec *time) {
  (void)clock;
  now_ns += 1000;
  *time = (struct timespec){.tv_sec = (time_t)(now_ns / 1000000000),
                            .tv_nsec = (long)(now_ns % 1000000000)};
  return 0;
}

ssize_t fuzz_getrandom(void *bytes, size_t length, unsigned flags) {
  (void)flags;
  memset(bytes, 7, length);
  return (ssize_t)length;
}
