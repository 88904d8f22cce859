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
 *   send PEER BYTES REPEATS START            START: CLOCK_MONOTONIC seconds, 0 for at once
 *   receive PEER PROTOCOL BYTES REPEATS START
 *   host OUT BYTES REPEATS START             device to host (1) or host to device (0)
 *
 * and answers each with "ok WORDS" or "failed CAUSE". A receive answers the protocol that was used
 * and the seconds of each transfer, as this side saw them; a host answers if its host memory is
 * pinned or pageable, and seconds. All data is checked. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "../src/driver.h"
#include "toposeat_devcopy.h"

enum { MAX_RANKS = 256, LINE = 4096, MAX_REPEATS = 10000 };

struct worker {
  const char *folder;
  int control;
  int rank;
  tdc_context *context;
  tdc_link *links[MAX_RANKS];
  uint64_t out, in; /* device memory */
  unsigned char *host;
  bool pinned; /* the driver knows `host` */
  size_t bytes;
  char answer[LINE];
};

static double now(void) {
  struct timespec at;
  (void)clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void wait_until(double start) {
  const struct timespec at = {(time_t)start, (long)((start - (double)(time_t)start) * 1e9)};
  if (start > 0)
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static bool fail(struct worker *worker, const char *cause) {
  (void)snprintf(worker->answer, LINE, "failed %s", cause);
  return false;
}

static bool fail_copy(struct worker *worker, tdc_result result) {
  if (result == TDC_DRIVER)
    (void)snprintf(worker->answer, LINE, "failed %s (its code is %d)", tdc_result_text(result),
                   worker->context ? tdc_driver_error(worker->context) : 0);
  else
    (void)snprintf(worker->answer, LINE, "failed %s", tdc_result_text(result));
  return false;
}

static long number(char **rest, long most) {
  const char *text = strtok_r(NULL, " \n", rest);
  char *end = NULL;
  const long value = text ? strtol(text, &end, 10) : -1;
  return text && end && *end == 0 && value >= 0 && value <= most ? value : -1;
}

static double start_time(char **rest) {
  const char *text = strtok_r(NULL, " \n", rest);
  return text ? strtod(text, NULL) : 0;
}

/* ---- links */

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
  const double deadline = now() + 20;
  if (!address_of(worker, peer, worker->rank, &address))
    return -1;
  while (now() < deadline) {
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

static bool join(struct worker *worker, char **rest, bool listens) {
  const long peer = number(rest, MAX_RANKS - 1);
  if (peer < 0 || peer == worker->rank || !worker->context)
    return fail(worker, "no such peer, or no device yet");
  if (worker->links[peer])
    return true;
  const int end = listens ? listen_for(worker, (int)peer) : connect_to(worker, (int)peer);
  if (end < 0)
    return fail(worker, "the peer's process cannot be reached");
  const tdc_result result = tdc_connect(worker->context, end, &worker->links[peer]);
  return result == TDC_OK || fail_copy(worker, result);
}

/* ---- memory */

static unsigned char letter(size_t at, int rank) {
  return (unsigned char)(at * 131 + (at >> 9) * 7 + (size_t)rank * 29 + 1);
}

static bool fill(struct worker *worker, uint64_t pointer, int rank) {
  for (size_t i = 0; i < worker->bytes; ++i)
    worker->host[i] = letter(i, rank);
  const struct tdc_driver *driver = tdc_load_driver();
  return driver->copy_in(pointer, worker->host, worker->bytes, NULL) == 0 &&
         driver->stream_synchronize(NULL) == 0;
}

static void free_host(struct worker *worker) {
  if (worker->pinned)
    (void)tdc_load_driver()->unregister_host(worker->host);
  worker->pinned = false;
  free(worker->host);
  worker->host = NULL;
}

static bool allocate_host(struct worker *worker, size_t bytes) {
  worker->host = malloc(bytes);
  worker->pinned = worker->host && tdc_load_driver()->register_host(worker->host, bytes, 0) == 0;
  return worker->host != NULL;
}

static bool set_size(struct worker *worker, char **rest) {
  const long bytes = number(rest, 1L << 34);
  if (bytes <= 0 || !worker->context)
    return fail(worker, "no size, or no device yet");
  if ((size_t)bytes <= worker->bytes)
    return true;
  if (worker->bytes) {
    tdc_result result = tdc_free(worker->context, worker->out);
    if (result == TDC_OK)
      result = tdc_free(worker->context, worker->in);
    if (result == TDC_OK)
      result = tdc_commit_frees(worker->context);
    if (result != TDC_OK)
      return fail_copy(worker, result);
  }
  free_host(worker);
  worker->bytes = 0;
  if (!allocate_host(worker, (size_t)bytes))
    return fail(worker, "no host memory");
  tdc_result result = tdc_allocate(worker->context, (size_t)bytes, &worker->out);
  if (result == TDC_OK)
    result = tdc_allocate(worker->context, (size_t)bytes, &worker->in);
  if (result != TDC_OK)
    return fail_copy(worker, result);
  worker->bytes = (size_t)bytes;
  return fill(worker, worker->out, worker->rank) || fail(worker, "a copy to the device failed");
}

static bool check(struct worker *worker, size_t bytes, int sender) {
  const struct tdc_driver *driver = tdc_load_driver();
  if (driver->copy_out(worker->host, worker->in, bytes, NULL) != 0 ||
      driver->stream_synchronize(NULL) != 0)
    return fail(worker, "a copy from the device failed");
  for (size_t i = 0; i < bytes; ++i)
    if (worker->host[i] != letter(i, sender))
      return fail(worker, "the data that arrived is wrong");
  return true;
}

/* ---- transfers */

static void add_seconds(struct worker *worker, double seconds) {
  const size_t length = strlen(worker->answer);
  if (length + 32 < LINE)
    (void)snprintf(worker->answer + length, LINE - length, " %.9f", seconds);
}

static bool send_all(struct worker *worker, char **rest) {
  const long peer = number(rest, MAX_RANKS - 1);
  const long bytes = number(rest, 1L << 34);
  const long repeats = number(rest, MAX_REPEATS);
  if (peer < 0 || !worker->links[peer] || bytes < 0 || (size_t)bytes > worker->bytes || repeats < 1)
    return fail(worker, "bad send");
  wait_until(start_time(rest));
  for (long i = 0; i < repeats; ++i) {
    const tdc_result result = tdc_send(worker->links[peer], worker->out, (size_t)bytes, NULL);
    if (result != TDC_OK)
      return fail_copy(worker, result);
  }
  return true;
}

static bool receive_all(struct worker *worker, char **rest) {
  const long peer = number(rest, MAX_RANKS - 1);
  const long protocol = number(rest, TDC_STAGED);
  const long bytes = number(rest, 1L << 34);
  const long repeats = number(rest, MAX_REPEATS);
  if (peer < 0 || !worker->links[peer] || protocol < 0 || bytes < 0 ||
      (size_t)bytes > worker->bytes || repeats < 1)
    return fail(worker, "bad receive");
  wait_until(start_time(rest));
  tdc_report report = {0};
  for (long i = 0; i < repeats; ++i) {
    const double begin = now();
    const tdc_result result = tdc_receive(worker->links[peer], worker->in, (size_t)bytes,
                                          (tdc_protocol)protocol, &report);
    if (result != TDC_OK)
      return fail_copy(worker, result);
    if (i == 0)
      (void)snprintf(worker->answer, LINE, "ok %s", tdc_protocol_name(report.protocol));
    add_seconds(worker, now() - begin);
  }
  return check(worker, (size_t)bytes, (int)peer);
}

static bool host_copies(struct worker *worker, char **rest) {
  const long out = number(rest, 1);
  const long bytes = number(rest, 1L << 34);
  const long repeats = number(rest, MAX_REPEATS);
  const struct tdc_driver *driver = tdc_load_driver();
  if (out < 0 || bytes < 0 || (size_t)bytes > worker->bytes || repeats < 1)
    return fail(worker, "bad host");
  wait_until(start_time(rest));
  (void)snprintf(worker->answer, LINE, "ok %s", worker->pinned ? "pinned" : "pageable");
  for (long i = 0; i < repeats; ++i) {
    const double begin = now();
    const int code = out ? driver->copy_out(worker->host, worker->in, (size_t)bytes, NULL)
                         : driver->copy_in(worker->in, worker->host, (size_t)bytes, NULL);
    if (code != 0 || driver->stream_synchronize(NULL) != 0)
      return fail(worker, "a copy between host and device failed");
    add_seconds(worker, now() - begin);
  }
  return true;
}

static bool list_devices(struct worker *worker) {
  const struct tdc_driver *driver = tdc_load_driver();
  int count = 0;
  if (!driver || driver->device_count(&count) != 0)
    return fail_copy(worker, TDC_NO_DRIVER);
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
  const long device = number(rest, 1 << 20);
  const long chunk = number(rest, 1L << 30);
  const long depth = number(rest, 64);
  const long cache = number(rest, 1 << 20);
  if (device < 0 || chunk < 0 || depth < 0 || cache < 0 || worker->context)
    return fail(worker, "bad open");
  const tdc_options options = {.chunk = (size_t)chunk,
                               .depth = (unsigned)depth,
                               .cache_size = (unsigned)cache,
                               .no_cache = cache == 0};
  const tdc_result result = tdc_open((int)device, &options, &worker->context);
  if (result != TDC_OK)
    return fail_copy(worker, result);
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
    return fail(worker, "an empty line");
  if (strcmp(verb, "devices") == 0)
    return list_devices(worker);
  if (strcmp(verb, "open") == 0)
    return open_device(worker, &rest);
  if (strcmp(verb, "listen") == 0)
    return join(worker, &rest, true);
  if (strcmp(verb, "connect") == 0)
    return join(worker, &rest, false);
  if (strcmp(verb, "size") == 0)
    return set_size(worker, &rest);
  if (strcmp(verb, "send") == 0)
    return send_all(worker, &rest);
  if (strcmp(verb, "receive") == 0)
    return receive_all(worker, &rest);
  if (strcmp(verb, "host") == 0)
    return host_copies(worker, &rest);
  return fail(worker, "an unknown word");
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
    free_host(worker);
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
