/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* toposeat-measure-worker FOLDER: one process per GPU, told what to copy by `toposeat measure`.
 *
 * Connects to FOLDER/control, says who it is, and obeys lines until "quit" or the end of the
 * socket:
 *
 *   devices                                  bus ids of the devices that this process sees
 *   open DEVICE CHUNK DEPTH CACHE            take a device (ordinal)
 *   listen PEER | connect PEER               link with the worker of another rank
 * (FOLDER/RANK-PEER)
 *   size BYTES                               room for messages of that size, both ways
 *   send PEER BYTES REPEATS START [host]     START: CLOCK_MONOTONIC seconds, 0 for at once;
 *   receive PEER PROTOCOL BYTES REPEATS START [host]    host: this side's end is host memory
 *   exchange PEER LISTENS PROTOCOL BYTES REPEATS        both directions at once; one side listens
 *   host OUT BYTES REPEATS START             device to host (1) or host to device (0)
 *
 * and answers each with "ok WORDS" or "failed CAUSE". A receive or exchange answers the protocol
 * used and the seconds of each transfer, as this side saw them; a host answers if its host memory
 * is pinned or pageable, and seconds. All data is checked. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "worker.h"

static bool list_devices(struct worker *worker) {
  const struct tdc_driver *driver = tdc_load_driver();
  int count = 0;
  if (!driver || driver->device_count(&count) != 0)
    return worker_fail_copy(worker, TDC_NO_DRIVER);
  for (int i = 0; i < count; ++i) {
    char pci[32] = "?";
    const size_t length = strlen(worker->answer);
    (void)driver->pci_bus_id(pci, (int)sizeof pci, i);
    if (length + sizeof pci < LINE)
      (void)snprintf(worker->answer + length, LINE - length, " %s", pci);
  }
  return true;
}

static bool open_device(struct worker *worker, char **rest) {
  const long device = worker_number(rest, 1 << 20);
  const long chunk = worker_number(rest, 1L << 30);
  const long depth = worker_number(rest, 64);
  const long cache = worker_number(rest, 1 << 20);
  if (device < 0 || chunk < 0 || depth < 0 || cache < 0 || worker->context)
    return worker_fail(worker, "bad open");
  worker->device = (int)device;
  worker->options = (tdc_options){.chunk = (size_t)chunk,
                                  .depth = (unsigned)depth,
                                  .cache_size = (unsigned)cache,
                                  .no_cache = cache == 0};
  const tdc_result result = tdc_open((int)device, &worker->options, &worker->context);
  if (result != TDC_OK)
    return worker_fail_copy(worker, result);
  char pci[32] = "";
  (void)tdc_load_driver()->pci_bus_id(pci, (int)sizeof pci, (int)device);
  (void)snprintf(worker->answer, LINE, "ok %s", pci);
  return true;
}

static bool obey(struct worker *worker, char *line) {
  char *rest = NULL;
  const char *verb = strtok_r(line, " \n", &rest);
  (void)snprintf(worker->answer, LINE, "ok");
  if (!verb)
    return worker_fail(worker, "an empty line");
  if (strcmp(verb, "devices") == 0)
    return list_devices(worker);
  if (strcmp(verb, "open") == 0)
    return open_device(worker, &rest);
  if (strcmp(verb, "listen") == 0)
    return worker_link(worker, &rest, true);
  if (strcmp(verb, "connect") == 0)
    return worker_link(worker, &rest, false);
  if (strcmp(verb, "size") == 0)
    return worker_set_size(worker, &rest);
  if (strcmp(verb, "send") == 0)
    return worker_send(worker, &rest);
  if (strcmp(verb, "receive") == 0)
    return worker_receive(worker, &rest);
  if (strcmp(verb, "exchange") == 0)
    return worker_exchange(worker, &rest);
  if (strcmp(verb, "host") == 0)
    return worker_host_copies(worker, &rest);
  return worker_fail(worker, "an unknown word");
}

/* ---- the control socket */

static int rank_of_environment(void) {
  static const char *const names[] = {
      "TOPOSEAT_MEASURE_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
      "SLURM_PROCID",          "FLUX_TASK_RANK"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    const char *text = getenv(names[i]);
    if (text && *text)
      return (int)strtol(text, NULL, 10);
  }
  return 0;
}

static bool write_line(int control, const char *text) {
  char line[LINE + 2];
  const int length = snprintf(line, sizeof line, "%s\n", text);
  for (int at = 0; at < length;) {
    const ssize_t done = send(control, line + at, (size_t)(length - at), MSG_NOSIGNAL);
    if (done < 0 && errno != EINTR)
      return false;
    at += done > 0 ? (int)done : 0;
  }
  return true;
}

/* Reads one line; answers peers' frees meanwhile. False at the end. */
static bool read_line(struct worker *worker, char *line) {
  for (size_t at = 0; at < LINE - 1;) {
    struct pollfd end = {.fd = worker->control, .events = POLLIN};
    if (poll(&end, 1, worker->context ? 1 : -1) == 0) {
      (void)tdc_progress(worker->context, 0);
      continue;
    }
    const ssize_t got = recv(worker->control, line + at, 1, 0);
    if (got <= 0 && !(got < 0 && errno == EINTR))
      return false;
    if (got > 0 && line[at++] == '\n') {
      line[at] = 0;
      return true;
    }
  }
  return false;
}

static void close_all(struct worker *worker) {
  if (worker->context)
    worker_free_host(worker);
  tdc_close(worker->context);
  (void)close(worker->control);
}

int main(int count, char **arguments) {
  static struct worker worker;
  char line[LINE];
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (count != 2) {
    (void)fprintf(stderr, "usage: toposeat-measure-worker FOLDER (started by toposeat measure)\n");
    return 2;
  }
  worker.folder = arguments[1];
  worker.rank = rank_of_environment();
  worker.control = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int length =
      snprintf(address.sun_path, sizeof address.sun_path, "%s/control", worker.folder);
  if (length < 0 || (size_t)length >= sizeof address.sun_path || worker.control < 0 ||
      worker.rank < 0 || worker.rank >= MAX_RANKS ||
      connect(worker.control, (struct sockaddr *)&address, sizeof address) != 0) {
    (void)fprintf(stderr, "toposeat-measure-worker: %s: cannot reach toposeat measure\n",
                  worker.folder);
    return 1;
  }
  (void)snprintf(worker.answer, LINE, "rank %d %ld", worker.rank, (long)getpid());
  bool goes_on = write_line(worker.control, worker.answer);
  while (goes_on && read_line(&worker, line) && strncmp(line, "quit", 4) != 0) {
    (void)obey(&worker, line);
    goes_on = write_line(worker.control, worker.answer);
  }
  close_all(&worker);
  return 0;
}
