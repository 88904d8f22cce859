/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What this process had from its devices, as cl.HOST.PID.json in the folder TOPOSEAT_CL_REPORT:
   when they are connected, where one is lost, and again at the end. Only then is the link measured.
 */
#include "report.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PINGS = 20, PIECE = 1 << 20, PIECES = 8, MOST_NS = 20000000 };

static uint64_t began;
static pid_t owner; /* a child of fork has no part in it */

/* Seconds until `back` bytes are here, after `there` bytes were sent. */
static double ping(struct tps_link *link, size_t there, size_t back) {
  uint64_t since = tps_now_ns();
  struct tps_reply reply;
  struct tps_text *out = tps__begin(link, TPS_PING, &reply);
  tps_put(out, back);
  memset(tps_room(out, there), 0, there);
  (void)tps__done(link, &reply);
  return (double)(tps_now_ns() - since) * 1e-9;
}

/* Bytes per second of the quickest piece, without the round trip that belongs to no byte. */
static double rate(struct tps_link *link, bool is_to) {
  double best = 0;
  uint64_t since = tps_now_ns();
  for (int i = 0; i < PIECES && tps_now_ns() - since < MOST_NS; i++) {
    double spent = ping(link, is_to ? PIECE : 0, is_to ? 0 : PIECE) - link->round_trip_s;
    double one = (double)PIECE / (spent > 1e-9 ? spent : 1e-9);
    best = one > best ? one : best;
  }
  return best;
}

static void put_text(FILE *file, const char *text) {
  fputc('"', file);
  for (; text != NULL && *text != '\0'; text++) {
    unsigned char code = (unsigned char)*text;
    if (code < 0x20 || code == '"' || code == '\\' || code == 0x7f)
      fprintf(file, "\\u%04x", code);
    else
      fputc(code, file);
  }
  fputc('"', file);
}

/* The proxy ended before this process did, whether anybody has noticed or not. */
static bool is_lost(struct tps_link *link) {
  struct pollfd end = {.fd = link->channel->socket, .events = POLLRDHUP};
  return atomic_load(&link->is_dead) ||
         (poll(&end, 1, 0) > 0 && (end.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0);
}

/* What a link carried is told with its first device. */
static void put_device(FILE *file, cl_device_id device, bool is_first_of_link) {
  struct tps_link *link = device->base.link;
  char name[256] = "";
  unsigned long long one = is_first_of_link;
  (void)tps__clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL);
  fprintf(file, "{\"endpoint\":");
  put_text(file, link->endpoint);
  fprintf(file, ",\"index\":%u,\"name\":", device->index);
  put_text(file, name);
  fprintf(file, ",\"host\":");
  put_text(file, link->host);
  if (link->moved_from != NULL) {
    fprintf(file, ",\"moved_from\":");
    put_text(file, link->moved_from);
  }
  if (device->held > 0)
    fprintf(file, ",\"held_by_others\":%llu", (unsigned long long)device->held);
  fputs(is_lost(link) ? ",\"lost\":true" : "", file);
  fprintf(file,
          ",\"round_trip_s\":%.9g,\"bandwidth_to_bytes_per_s\":%.6g,"
          "\"bandwidth_from_bytes_per_s\":%.6g,\"bytes_to\":%llu,\"bytes_from\":%llu,"
          "\"calls\":%llu,\"waits\":%llu,\"waited_s\":%.6g}",
          link->round_trip_s, link->rate_to, link->rate_from,
          one * (atomic_load(&link->bytes_to) - link->own_to),
          one * (atomic_load(&link->bytes_from) - link->own_from),
          one * (atomic_load(&link->calls) - link->own_calls),
          one * (atomic_load(&link->waits) - link->own_calls),
          (double)one * (double)(atomic_load(&link->waited_ns) - link->own_ns) * 1e-9);
}

static void put_rank(FILE *file) {
  static const char *const names[] = {"TOPOSEAT_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK",
                                      "SLURM_PROCID"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (getenv(names[i]) != NULL) {
      put_text(file, getenv(names[i]));
      return;
    }
  fputs("null", file);
}

static void write_report(FILE *file) {
  cl_device_id *devices = NULL;
  cl_uint count = tps__known_devices(&devices);
  fputs("{\"devices\":[", file);
  for (cl_uint i = 0; i < count; i++) {
    bool is_first = true;
    for (cl_uint before = 0; before < i; before++)
      is_first = is_first && devices[before]->base.link != devices[i]->base.link;
    if (i > 0)
      fputc(',', file);
    put_device(file, devices[i], is_first);
  }
  fputs("],\"rank\":", file);
  put_rank(file);
  fprintf(file, ",\"run_s\":%.6g}\n", (double)(tps_now_ns() - began) * 1e-9);
}

static void replace_report(const char *folder) {
  char host[256] = "", name[320], fresh[330];
  (void)gethostname(host, sizeof host - 1);
  snprintf(name, sizeof name, "cl.%s.%d.json", host, (int)getpid());
  snprintf(fresh, sizeof fresh, ".%s", name);
  int place = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (place < 0)
    return;
  (void)unlinkat(place, fresh, 0);
  int handle = openat(place, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  FILE *file = handle < 0 ? NULL : fdopen(handle, "w");
  if (file != NULL) {
    write_report(file);
    bool is_whole = ferror(file) == 0;
    if (fclose(file) == 0 && is_whole)
      (void)renameat(place, fresh, place, name);
  }
  close(place);
}

void tps__report(void) {
  static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
  const char *folder = getenv("TOPOSEAT_CL_REPORT");
  if (owner == 0)
    owner = getpid();
  if (folder == NULL || owner != getpid())
    return;
  pthread_mutex_lock(&writing);
  if (began == 0)
    began = tps_now_ns();
  replace_report(folder);
  pthread_mutex_unlock(&writing);
}

void tps__measure(struct tps_link *link) {
  if (began == 0)
    began = tps_now_ns();
  if (getenv("TOPOSEAT_CL_REPORT") == NULL)
    return;
  for (int i = 0; i < PINGS; i++) {
    double one = ping(link, 0, 0);
    if (i == 0 || one < link->round_trip_s)
      link->round_trip_s = one;
  }
  link->rate_to = rate(link, true);
  link->rate_from = rate(link, false);
  link->own_to = atomic_load(&link->bytes_to);
  link->own_from = atomic_load(&link->bytes_from);
  link->own_calls = atomic_load(&link->waits); /* so far each call was waited for */
  link->own_ns = atomic_load(&link->waited_ns);
}

/* What was enqueued last is sent, as a native one would run it. */
__attribute__((destructor)) static void leave(void) {
  atomic_store(&tps__is_leaving, true);
  if (began != 0)
    tps__report();
  tps__leave();
}
