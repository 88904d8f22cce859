/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The record file: created sparse, mapped shared, filled in place. Before a page is touched for the
 * first time, even for reading, it is populated through madvise, which reports a full file system
 * as an error where a plain access would raise SIGBUS in the application. What is in use is
 * therefore kept in private memory as well (`keys`, `event_used`).
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

#include "count.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older kernels answer EINVAL */
#endif

#define MIN_SLOTS UINT64_C(256)
#define MAX_SLOTS (UINT64_C(1) << 20)
#define EVENTS UINT64_C(8192)
#define COMMUNICATORS UINT64_C(4096)
#define RUNS UINT64_C(65536)

static char *base; /* start of the mapping */
static bool event_used[EVENTS];

static uint64_t next_power_of_two(uint64_t value) {
  uint64_t power = 1;
  while (power < value)
    power *= 2;
  return power;
}

static uint64_t page_up(uint64_t value) { return (value + 4095u) & ~UINT64_C(4095); }

/* Makes the pages of [start, start + length) writable for good. False: there is no space for them.
 */
static bool populate(const void *start, size_t length) {
  static bool said;
  uintptr_t low = (uintptr_t)start & ~(uintptr_t)4095;
  uintptr_t high = (uintptr_t)start + length;
  if (madvise((void *)low, high - low, MADV_POPULATE_WRITE) == 0 || errno == EINVAL)
    return true;
  tps__warn(&said, "no space left for the traffic record: some messages are not counted");
  return false;
}

static struct tps_section section(uint64_t *end, uint64_t capacity, uint64_t stride) {
  struct tps_section made = {.offset = *end, .capacity = capacity, .stride = stride};
  *end = page_up(*end + capacity * stride);
  return made;
}

/* Eight keys (kind x space) per rank find a free home each, up to 2^17 ranks; beyond, they share.
 */
static uint64_t slots_for(int size) {
  uint64_t wanted = next_power_of_two(((uint64_t)size + 1) * 8);
  return wanted < MIN_SLOTS ? MIN_SLOTS : wanted > MAX_SLOTS ? MAX_SLOTS : wanted;
}

/* Growing a file beyond RLIMIT_FSIZE would raise SIGXFSZ, which ends the application. */
static bool is_file_size_allowed(uint64_t length) {
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         length <= limit.rlim_cur;
}

static void *map_new_file(const char *path, uint64_t length) {
  if (!is_file_size_allowed(length)) {
    errno = EFBIG;
    return MAP_FAILED;
  }
  int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0)
    return MAP_FAILED;
  void *mapping = MAP_FAILED;
  if (ftruncate(file, (off_t)length) == 0)
    mapping = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  int reason = errno;
  close(file);
  if (mapping == MAP_FAILED)
    unlink(path);
  errno = reason;
  return mapping;
}

bool tps__record_create(const char *directory, int rank, int size) {
  static bool said;
  char path[PATH_MAX];
  int length = snprintf(path, sizeof path, "%s/rank-%d-%d" TPS_RECORD_SUFFIX, directory, rank,
                        (int)getpid());
  if (length < 0 || (size_t)length >= sizeof path) {
    tps__warn(&said, "the folder for records has too long a name: not recording");
    return false;
  }
  uint64_t end = TPS_HEADER_RESERVED;
  struct tps_header layout = {.version = TPS_RECORD_VERSION,
                              .byte_order = TPS_BYTE_ORDER_MARK,
                              .header_bytes = sizeof layout,
                              .rank = rank,
                              .world_size = size};
  layout.slots = section(&end, slots_for(size), sizeof(struct tps_slot));
  layout.events = section(&end, EVENTS, sizeof(struct tps_event));
  layout.communicators = section(&end, COMMUNICATORS, sizeof(struct tps_communicator));
  layout.runs = section(&end, RUNS, sizeof(struct tps_run));
  void *mapping = map_new_file(path, end);
  if (mapping == MAP_FAILED) {
    tps__warn(&said, "cannot create %s (%s): not recording", path, strerror(errno));
    return false;
  }
  tps__process.keys = calloc(layout.slots.capacity, sizeof *tps__process.keys);
  if (tps__process.keys == NULL || !populate(mapping, TPS_HEADER_RESERVED)) {
    free(tps__process.keys);
    munmap(mapping, end);
    unlink(path);
    return false;
  }
  base = mapping;
  tps__process.slots = (struct tps_slot *)(void *)(base + layout.slots.offset);
  tps__process.slot_mask = layout.slots.capacity - 1;
  tps__process.header = mapping;
  *tps__process.header = layout;
  return true;
}

struct tps_slot *tps__slot_insert(uint64_t key) {
  uint64_t mask = tps__process.slot_mask;
  uint64_t home = tps__slot_home(key);
  for (uint64_t step = 0; step <= mask; ++step) {
    uint64_t place = (home + step) & mask;
    struct tps_slot *slot = &tps__process.slots[place];
    uint64_t *claim = &tps__process.keys[place];
    uint64_t seen = __atomic_load_n(claim, __ATOMIC_ACQUIRE);
    if (seen == key)
      return slot;
    if (seen != 0)
      continue;
    if (!populate(slot, sizeof *slot))
      return NULL;
    bool claimed =
        __atomic_compare_exchange_n(claim, &seen, key, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    if (claimed)
      __atomic_store_n(&slot->key, key, __ATOMIC_RELEASE);
    if (claimed || seen == key)
      return slot;
  }
  return NULL;
}

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ (hash >> 29);
}

static bool same_shape(const struct tps_event *event, const struct tps_event_shape *shape,
                       uint8_t by_class) {
  return event->communicator == shape->communicator && event->operation == shape->operation &&
         event->space == shape->space && event->root == shape->root &&
         event->bytes == shape->bytes && event->by_class == by_class;
}

static struct tps_event *event_at(uint64_t place) {
  return (struct tps_event *)(void *)(base + tps__process.header->events.offset) + place;
}

/* Where the event of this shape is, or the free place for it; EVENTS if neither. Under the lock. */
static uint64_t find_event(const struct tps_event_shape *shape, uint8_t by_class) {
  uint64_t hash =
      mix(mix(shape->bytes, (uint64_t)shape->operation << 32 | shape->communicator),
          (uint64_t)(uint32_t)shape->root << 8 | (uint64_t)(shape->space << 1) | by_class);
  for (uint64_t step = 0; step < EVENTS; ++step) {
    uint64_t place = (hash + step) % EVENTS;
    if (!event_used[place] || same_shape(event_at(place), shape, by_class))
      return place;
  }
  return EVENTS;
}

/* Fills a free place. False: there is no space for it. */
static bool claim_event(uint64_t place, const struct tps_event_shape *shape, uint8_t by_class) {
  struct tps_event *event = event_at(place);
  if (!populate(event, sizeof *event))
    return false;
  *event = (struct tps_event){.communicator = shape->communicator,
                              .operation = shape->operation,
                              .space = shape->space,
                              .by_class = by_class,
                              .root = shape->root,
                              .bytes = shape->bytes};
  __atomic_store_n(&event->used, 1u, __ATOMIC_RELEASE);
  event_used[place] = true;
  return true;
}

void tps__event_add(const struct tps_event_shape *shape) {
  static uint64_t used;
  struct tps_event_shape wanted = *shape;
  uint8_t by_class = 0;
  tps__lock();
  uint64_t place = find_event(&wanted, by_class);
  if (place == EVENTS || (!event_used[place] && used >= EVENTS / 4 * 3)) {
    by_class = 1;
    wanted.bytes = tps__bucket(shape->bytes);
    place = find_event(&wanted, by_class);
  }
  bool known = place < EVENTS && event_used[place];
  if (!known && place < EVENTS && claim_event(place, &wanted, by_class)) {
    known = true;
    used += 1;
  }
  if (known) {
    struct tps_event *event = event_at(place);
    event->calls += 1;
    event->bytes_total += shape->bytes;
  } else {
    tps__process.header->lost_events += 1;
  }
  tps__unlock();
}

static int member(const struct tps_group *group, int rank) {
  return group->identity ? rank : group->world[rank];
}

/* Appends the longest run from `rank` on; returns how many ranks it covers, 0 when there is no
 * room. */
static int add_run(const struct tps_group *group, int rank) {
  struct tps_header *header = tps__process.header;
  if (header->runs_used >= RUNS)
    return 0;
  struct tps_run *run = (struct tps_run *)(void *)(base + header->runs.offset) + header->runs_used;
  if (!populate(run, sizeof *run))
    return 0;
  int first = member(group, rank);
  int count = 1;
  int stride = 0;
  if (rank + 1 < group->size) {
    int second = member(group, rank + 1);
    stride = first < 0 || second < 0 ? 0 : second - first;
    while (rank + count < group->size) {
      int next = member(group, rank + count);
      bool fits = first < 0 ? next < 0 : next >= 0 && next == first + stride * count;
      if (!fits)
        break;
      count += 1;
    }
  }
  *run = (struct tps_run){.first = first, .stride = stride, .count = count};
  header->runs_used += 1;
  return count;
}

/* Called under the lock, once per group. */
uint32_t tps__communicator_add(const struct tps_group *group, const char *name) {
  static bool said;
  struct tps_header *header = tps__process.header;
  uint32_t id = header->communicators_used;
  uint32_t first_run = header->runs_used;
  struct tps_communicator *entry =
      (struct tps_communicator *)(void *)(base + header->communicators.offset) + id;
  bool room = id < COMMUNICATORS && populate(entry, sizeof *entry);
  for (int rank = 0; room && rank < group->size;) {
    int covered = add_run(group, rank);
    room = covered > 0;
    rank += covered;
  }
  if (!room) {
    header->runs_used = first_run;
    tps__warn(&said,
              "no room for another communicator: later ones are not described in the record");
    return TPS_NO_COMMUNICATOR;
  }
  *entry = (struct tps_communicator){.size = (uint32_t)group->size,
                                     .inter = group->inter,
                                     .first_run = first_run,
                                     .run_count = header->runs_used - first_run};
  strncpy(entry->name, name, sizeof entry->name - 1);
  __atomic_store_n(&header->communicators_used, id + 1, __ATOMIC_RELEASE);
  return id;
}
