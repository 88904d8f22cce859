/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Segment files: created sparse, mapped shared, filled in place. Before a page is touched for the
 * first time, even for reading, it is populated, which reports a full file system as an error where
 * a plain access would raise SIGBUS in the application.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "carry.h"
#include "counters.h"
#include "trust.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older kernels answer EINVAL */
#endif

#define MIN_SLOTS UINT64_C(256)
#define MAX_SLOTS (UINT64_C(1) << 20)
#define SLOTS_FOR_PHASES 8u /* times as many, when phases are told apart */
#define EVENTS UINT64_C(8192)
#define MAX_RESERVED (UINT64_C(64) << 20)
#define COMMUNICATORS UINT64_C(4096)
#define RUNS UINT64_C(65536)

static char *folder; /* absolute: the application may change its directory */
static int own_rank;
static int world_size;

static uint64_t next_power_of_two(uint64_t value) {
  uint64_t power = 1;
  while (power < value)
    power *= 2;
  return power;
}

static uint64_t page_up(uint64_t value) { return (value + 4095u) & ~UINT64_C(4095); }

bool tps__populate(const void *start, size_t length) {
  static bool said;
  uintptr_t low = (uintptr_t)start & ~(uintptr_t)4095;
  uintptr_t high = (uintptr_t)start + length;
  if (madvise((void *)low, high - low, MADV_POPULATE_WRITE) == 0 || errno == EINVAL)
    return true;
  errno = ENOSPC; /* the kernel says EFAULT of a page that has no space */
  tps__warn(&said, "no space left for the traffic record: some messages are not counted");
  return false;
}

static struct tps_section section(uint64_t *end, uint64_t capacity, uint64_t stride) {
  struct tps_section made = {.offset = *end, .capacity = capacity, .stride = stride};
  *end += capacity * stride;
  return made;
}

/* Up to 2^17 ranks, each of a rank's eight keys (kind x space) has a slot of its own to begin at;
 * beyond, they share. */
static uint64_t slots_for(int size, bool phases) {
  uint64_t wanted = next_power_of_two(((uint64_t)size + 1) * 8);
  if (phases)
    wanted *= SLOTS_FOR_PHASES;
  return wanted < MIN_SLOTS ? MIN_SLOTS : wanted > MAX_SLOTS ? MAX_SLOTS : wanted;
}

/* The header of segment `thread`; the file's length goes to `*end`. */
static struct tps_header layout_of(int thread, uint64_t *end) {
  bool phases = tps__process.phase_mode != TPS_PHASES_OFF;
  bool is_main = thread == TPS_MAIN_SEGMENT;
  struct tps_header layout = {.version = TPS_RECORD_VERSION,
                              .byte_order = TPS_BYTE_ORDER_MARK,
                              .header_bytes = sizeof layout,
                              .rank = own_rank,
                              .world_size = world_size,
                              .pid = (int32_t)getpid(),
                              .thread = thread,
                              .local_rank = -1,
                              .visible_devices = -1};
  *end = TPS_HEADER_RESERVED;
  layout.devices = section(end, TPS_MAX_DEVICES, sizeof(struct tps_device));
  layout.phases = section(end, phases ? TPS_MAX_PHASES : 1, sizeof(struct tps_phase));
  *end = page_up(*end);
  layout.slots = section(end, slots_for(world_size, phases), sizeof(struct tps_slot));
  *end = page_up(*end);
  layout.events = section(end, EVENTS, sizeof(struct tps_event));
  *end = page_up(*end);
  layout.communicators = section(end, is_main ? COMMUNICATORS : 0, sizeof(struct tps_communicator));
  *end = page_up(*end);
  layout.runs = section(end, is_main ? RUNS : 0, sizeof(struct tps_run));
  return layout;
}

/* Growing a file beyond RLIMIT_FSIZE would raise SIGXFSZ, which ends the application. */
static bool is_file_size_allowed(uint64_t length) {
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         length <= limit.rlim_cur;
}

/*
 * Before Linux 5.14 a page cannot be populated with an error as the answer, so that a full file
 * system would raise SIGBUS: there the file is not sparse but has its space from the start, as long
 * as that is affordable (worlds of up to some 10^4 ranks).
 */
static bool reserve(int file, void *mapping, uint64_t length) {
  if (madvise(mapping, 4096, MADV_POPULATE_WRITE) == 0)
    return true;
  if (errno != EINVAL) {
    errno = ENOSPC;
    return false;
  }
  if (length > MAX_RESERVED)
    return true;
  errno = posix_fallocate(file, 0, (off_t)length);
  return errno == 0;
}

static void *map_new_file(const char *path, uint64_t length) {
  if (!is_file_size_allowed(length)) {
    errno = EFBIG;
    return MAP_FAILED;
  }
  int file = tps_make_mark(AT_FDCWD, path);
  if (file < 0)
    return MAP_FAILED;
  void *mapping = MAP_FAILED;
  if (ftruncate(file, (off_t)length) == 0)
    mapping = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  int reason = errno;
  if (mapping != MAP_FAILED && !reserve(file, mapping, length)) {
    reason = errno;
    munmap(mapping, length);
    mapping = MAP_FAILED;
  }
  close(file);
  if (mapping == MAP_FAILED)
    unlink(path);
  errno = reason;
  return mapping;
}

/* False: the path is too long. */
static bool path_of(char *path, size_t room, int thread) {
  char suffix[32] = "";
  if (thread != TPS_MAIN_SEGMENT)
    snprintf(suffix, sizeof suffix, "-t%d", thread);
  int length = snprintf(path, room, "%s/rank-%d-%d%s" TPS_RECORD_SUFFIX, folder, own_rank,
                        (int)getpid(), suffix);
  return length >= 0 && (size_t)length < room;
}

/* Leaves the cause for whoever looks for the record: a name, for which a full disk has room. */
static void leave_cause(int thread, int cause) {
  char path[PATH_MAX];
  int length = snprintf(path, sizeof path, "%s/rank-%d-%d" TPS_CAUSE_SUFFIX "%d", folder, own_rank,
                        (int)getpid(), cause);
  if (thread != TPS_MAIN_SEGMENT || length < 0 || (size_t)length >= sizeof path)
    return;
  int file = tps_make_mark(AT_FDCWD, path);
  if (file >= 0)
    close(file);
}

/* Points into a fresh mapping and writes its header. False: no memory, or no space for a page. */
static bool set_up(struct tps_segment *segment, void *mapping, const struct tps_header *layout) {
  char *base = mapping;
  segment->keys = calloc(layout->slots.capacity, sizeof *segment->keys);
  segment->event_used = calloc(layout->events.capacity, sizeof *segment->event_used);
  uint64_t first_part = layout->phases.offset + layout->phases.capacity * layout->phases.stride;
  if (segment->keys == NULL || segment->event_used == NULL || !tps__populate(base, first_part)) {
    bool has_memory = segment->keys != NULL && segment->event_used != NULL;
    free(segment->keys);
    free(segment->event_used);
    errno = has_memory ? ENOSPC : ENOMEM;
    return false;
  }
  segment->header = mapping;
  segment->slots = (struct tps_slot *)(void *)(base + layout->slots.offset);
  segment->slot_mask = layout->slots.capacity - 1;
  segment->events = (struct tps_event *)(void *)(base + layout->events.offset);
  segment->event_capacity = layout->events.capacity;
  segment->devices = (struct tps_device *)(void *)(base + layout->devices.offset);
  segment->phases = (struct tps_phase *)(void *)(base + layout->phases.offset);
  *segment->header = *layout;
  return true;
}

bool tps__record_start(const char *directory, int rank, int size) {
  static bool said;
  folder = realpath(directory, NULL);
  own_rank = rank;
  world_size = size;
  if (folder == NULL)
    tps__warn(&said, "the folder for records, %.200s, cannot be used (%s): not recording",
              directory, strerror(errno));
  return folder != NULL;
}

void tps__record_publish(struct tps_header *header) {
  uint64_t magic;
  memcpy(&magic, TPS_RECORD_MAGIC, sizeof magic);
  __atomic_store_n((uint64_t *)(void *)header->magic, magic, __ATOMIC_RELEASE);
}

void tps__record_finish(enum tps_state state) {
  __atomic_store_n(&tps__process.header->state, (uint32_t)state, __ATOMIC_RELEASE);
}

bool tps__segment_create(struct tps_segment *segment, int thread) {
  static bool said;
  char path[PATH_MAX];
  uint64_t length;
  struct tps_header layout = layout_of(thread, &length);
  if (!path_of(path, sizeof path, thread)) {
    errno = ENAMETOOLONG;
    return false;
  }
  void *mapping = map_new_file(path, length);
  if (mapping == MAP_FAILED) {
    int cause = errno;
    if (thread == TPS_MAIN_SEGMENT && tps_may_say(folder))
      tps__warn(&said, "cannot create %.300s (%s): not recording", path, strerror(cause));
    leave_cause(thread, cause);
    return false;
  }
  if (set_up(segment, mapping, &layout))
    return true;
  int cause = errno;
  munmap(mapping, length);
  unlink(path);
  leave_cause(thread, cause);
  return false;
}

bool tps__segment_create_sink(struct tps_segment *segment) {
  uint64_t length;
  struct tps_header layout = layout_of(TPS_MAIN_SEGMENT, &length);
  void *mapping = mmap(NULL, length, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED)
    return false;
  if (set_up(segment, mapping, &layout))
    return true;
  munmap(mapping, length);
  return false;
}
