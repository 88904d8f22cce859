/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Finding the worker of another rank: FOLDER/LISTENER-OTHER. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "worker.h"

static bool address_of(const struct worker *worker, int listener, int other,
                       struct sockaddr_un *address) {
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  const int length = snprintf(address->sun_path, sizeof address->sun_path, "%s/%d-%d",
                              worker->folder, listener, other);
  return length > 0 && (size_t)length < sizeof address->sun_path;
}

static int listen_for(const struct worker *worker, int peer) {
  struct sockaddr_un address;
  if (!address_of(worker, worker->rank, peer, &address))
    return -1;
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0)
    return -1;
  int joined = -1;
  if (bind(listener, (struct sockaddr *)&address, sizeof address) == 0 &&
      listen(listener, 1) == 0) {
    struct pollfd end = {.fd = listener, .events = POLLIN};
    if (poll(&end, 1, 20000) > 0)
      joined = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  }
  (void)close(listener);
  (void)unlink(address.sun_path);
  return joined;
}

static int connect_to(const struct worker *worker, int peer) {
  struct sockaddr_un address;
  const double deadline = worker_now() + 20;
  if (!address_of(worker, peer, worker->rank, &address))
    return -1;
  while (worker_now() < deadline) {
    const int end = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (end < 0)
      return -1;
    if (connect(end, (struct sockaddr *)&address, sizeof address) == 0)
      return end;
    (void)close(end);
    const struct timespec rest = {0, 2000000};
    (void)nanosleep(&rest, NULL);
  }
  return -1;
}

int worker_join(const struct worker *worker, int peer, bool listens) {
  return listens ? listen_for(worker, peer) : connect_to(worker, peer);
}

bool worker_link(struct worker *worker, char **rest, bool listens) {
  const long peer = worker_number(rest, MAX_RANKS - 1);
  if (peer < 0 || peer == worker->rank || !worker->context)
    return worker_fail(worker, "no such peer, or no device yet");
  if (worker->links[peer])
    return true;
  const int end = worker_join(worker, (int)peer, listens);
  if (end < 0)
    return worker_fail(worker, "the peer's process cannot be reached");
  const tdc_result result = tdc_connect(worker->context, end, &worker->links[peer]);
  return result == TDC_OK || worker_fail_copy(worker, result);
}
