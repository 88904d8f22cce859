/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The tables of a segment: pairs of ranks (slots), shapes of collectives (events), and in the main
 * segment communicators. What is in use is kept in private memory as well (`keys`, `event_used`):
 * a page of the file may only be touched, even for reading, once it is populated.
 */
#include <string.h>

#include "counters.h"

struct tps_slot *tps__slot_insert(uint64_t key) {
  struct tps_segment *segment = tps__thread.segment;
  uint64_t mask = segment->slot_mask;
  uint64_t home = tps__slot_home(key, mask);
  for (uint64_t step = 0; step <= mask; ++step) {
    uint64_t place = (home + step) & mask;
    struct tps_slot *slot = &segment->slots[place];
    uint64_t *claim = &segment->keys[place];
    uint64_t seen = __atomic_load_n(claim, __ATOMIC_ACQUIRE);
    if (seen == key)
      return slot;
    if (seen != 0)
      continue;
    if (!tps__populate(slot, sizeof *slot))
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
                       uint32_t phase, uint8_t by_class) {
  return event->communicator == shape->communicator && event->operation == shape->operation &&
         event->space == shape->space && event->root == shape->root &&
         event->bytes == shape->bytes && event->phase == phase && event->by_class == by_class &&
         (by_class || event->element == shape->element);
}

/* Where the event of this shape is, or the free place for it; the capacity if neither. */
static uint64_t find_event(const struct tps_segment *segment, const struct tps_event_shape *shape,
                           uint32_t phase, uint8_t by_class) {
  uint64_t hash = mix(mix(shape->bytes, (uint64_t)shape->operation << 32 | shape->communicator),
                      (uint64_t)(uint32_t)shape->root << 8 | (uint64_t)(shape->space << 1) |
                          by_class | (uint64_t)phase << 40);
  for (uint64_t step = 0; step < segment->event_capacity; ++step) {
    uint64_t place = (hash + step) % segment->event_capacity;
    if (!segment->event_used[place] || same_shape(&segment->events[place], shape, phase, by_class))
      return place;
  }
  return segment->event_capacity;
}

/* Fills a free place. False: there is no space for it. */
static bool claim_event(struct tps_segment *segment, uint64_t place,
                        const struct tps_event_shape *shape, uint32_t phase, uint8_t by_class) {
  struct tps_event *event = &segment->events[place];
  if (!tps__populate(event, sizeof *event))
    return false;
  *event = (struct tps_event){.communicator = shape->communicator,
                              .operation = shape->operation,
                              .space = shape->space,
                              .by_class = by_class,
                              .root = shape->root,
                              .bytes = shape->bytes,
                              .phase = phase,
                              .element = shape->element};
  __atomic_store_n(&event->used, 1u, __ATOMIC_RELEASE);
  segment->event_used[place] = true;
  segment->events_used += 1;
  return true;
}

/* The event of this shape, or of its size class when the table is nearly full; NULL: no room. */
static struct tps_event *event_of(struct tps_segment *segment, const struct tps_event_shape *shape,
                                  uint32_t phase) {
  struct tps_event *last = segment->last_event; /* in a loop it is most often the same again */
  if (last != NULL && same_shape(last, shape, phase, 0))
    return last;
  struct tps_event_shape wanted = *shape;
  uint8_t by_class = 0;
  uint64_t place = find_event(segment, &wanted, phase, by_class);
  if (place == segment->event_capacity ||
      (!segment->event_used[place] && segment->events_used >= segment->event_capacity / 4 * 3)) {
    by_class = 1;
    wanted.bytes = tps__bucket(shape->bytes);
    place = find_event(segment, &wanted, phase, by_class);
  }
  if (place == segment->event_capacity)
    return NULL;
  if (!segment->event_used[place] && !claim_event(segment, place, &wanted, phase, by_class))
    return NULL;
  return segment->last_event = &segment->events[place];
}

void tps__event_add(const struct tps_event_shape *shape) {
  struct tps_segment *segment = tps__thread.segment;
  if (segment->shared)
    tps__lock();
  struct tps_event *event =
      event_of(segment, shape, (uint32_t)(tps__thread.phase_key >> TPS_KEY_PHASE_SHIFT));
  if (event != NULL) {
    event->calls += 1;
    event->bytes_total += shape->bytes;
  } else {
    tps__bump(&segment->header->lost_events, 1);
  }
  if (segment->shared)
    tps__unlock();
}

static void *section_of(struct tps_header *header, struct tps_section section) {
  return (char *)(void *)header + section.offset;
}

static int member(const struct tps_group *group, int rank) {
  return group->identity ? rank : group->world[rank];
}

/* Appends the longest run from `rank` on; returns how many ranks it covers, 0 when there is no
 * room. */
static int add_run(const struct tps_group *group, int rank) {
  struct tps_header *header = tps__process.header;
  if (header->runs_used >= header->runs.capacity)
    return 0;
  struct tps_run *run = (struct tps_run *)section_of(header, header->runs) + header->runs_used;
  if (!tps__populate(run, sizeof *run))
    return 0;
  int first = member(group, rank);
  int count = 1;
  int stride = 0;
  if (rank + 1 < group->size) {
    int second = member(group, rank + 1);
    stride = first < 0 || second < 0 ? 0 : second - first;
    while (rank + count < group->size) {
      int next = member(group, rank + count);
      bool fits = first < 0 ? next == first : next >= 0 && next == first + stride * count;
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
      (struct tps_communicator *)section_of(header, header->communicators) + id;
  bool room = id < header->communicators.capacity && tps__populate(entry, sizeof *entry);
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
