/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "meeting_point.h"

#include "home.h"
#include "trust.h"

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { ATTEMPTS = 200, PAUSE_MS = 5 };

/* Anybody can list the names of these sockets, and take one before its owners do. So with a job's
   key the name tells nothing and nobody can guess it; what else tells a job from others is known.
 */
static uint64_t add_to_hash(uint64_t state, const char *text) { /* FNV-1a */
  for (; *text != '\0'; text++)
    state = (state ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
  return state;
}

static socklen_t name_socket(struct sockaddr_un *address, const char *words, const char *node) {
  unsigned char digest[TPS_DIGEST_BYTES];
  uint64_t hash = add_to_hash(add_to_hash(UINT64_C(0xcbf29ce484222325), words), node);
  if (tps_home_secret(words, node, digest))
    memcpy(&hash, digest, sizeof hash);
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "toposeat-%lu-%016llx",
                        (unsigned long)geteuid(), (unsigned long long)hash);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int new_socket(void) {
  return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

struct tps_point tps_point_join(const char *words, const char *node) {
  struct tps_point point = {-1, -1};
  struct sockaddr_un address;
  socklen_t size = name_socket(&address, words, node);
  for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
    int own = new_socket();
    if (own < 0)
      return point;
    if (bind(own, (const struct sockaddr *)&address, size) == 0 && listen(own, SOMAXCONN) == 0) {
      point.listener = own;
      return point;
    }
    close(own);
    own = new_socket();
    if (own >= 0 && connect(own, (const struct sockaddr *)&address, size) == 0) {
      if (tps_peer_is_mine(own))
        point.leader = own;
      else
        close(own);
      return point;
    }
    if (own >= 0)
      close(own);
    poll(NULL, 0, PAUSE_MS); /* between bind and listen, or its backlog is full */
  }
  return point;
}

int tps_point_accept(int listener) {
  int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (peer >= 0 && !tps_peer_is_mine(peer)) {
    close(peer);
    return -1;
  }
  return peer;
}
