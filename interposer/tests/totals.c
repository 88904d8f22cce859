/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "totals.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void fail(const char *what, const char *name) {
  fprintf(stderr, "%s: %s\n", name, what);
  exit(1);
}

void expect(const char *what, uint64_t seen, uint64_t expected) {
  if (seen == expected)
    return;
  fprintf(stderr, "%s: %llu instead of %llu\n", what, (unsigned long long)seen,
          (unsigned long long)expected);
  exit(1);
}

static void add_slots(struct totals *totals, const char *base, struct tps_section section) {
  const struct tps_slot *slots = (const void *)(base + section.offset);
  for (uint64_t i = 0; i < section.capacity; ++i) {
    if (slots[i].key == 0)
      continue;
    uint64_t key = slots[i].key;
    uint64_t peer = key & 0xffffffffu;
    uint64_t kind = (key >> 40) & 3;
    uint64_t space = (key >> 32) & 1;
    if (peer >= TOTALS_PEERS)
      fail("unknown peer", "slots");
    totals->messages[kind][space][peer] += slots[i].messages;
    totals->bytes[kind][space][peer] += slots[i].bytes;
    totals->phase_messages[(key >> TPS_KEY_PHASE_SHIFT) & 0xff] += slots[i].messages;
  }
}

static void add_events(struct totals *totals, const char *base, struct tps_section section) {
  const struct tps_event *events = (const void *)(base + section.offset);
  for (uint64_t i = 0; i < section.capacity; ++i) {
    totals->events += events[i].calls;
    totals->event_bytes += events[i].bytes_total;
  }
}

static void add_phases(struct totals *totals, const char *base, struct tps_section section) {
  const struct tps_phase *phases = (const void *)(base + section.offset);
  for (uint64_t i = 0; i < section.capacity; ++i)
    for (unsigned kind = 0; kind < TPS_TIME_KINDS; ++kind)
      for (unsigned space = 0; space < TPS_SPACES; ++space)
        totals->calls[kind][space] += phases[i].time[kind][space].calls;
}

static void add_devices(struct totals *totals, const char *base, struct tps_section section) {
  const struct tps_device *devices = (const void *)(base + section.offset);
  for (uint64_t i = 0; i < section.capacity; ++i) {
    totals->device_uses[i] += devices[i].uses;
    totals->device_bytes[i] += devices[i].bytes;
  }
}

static void add_segment(struct totals *totals, const char *path) {
  struct stat status;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0 || fstat(file, &status) != 0)
    fail("cannot be read", path);
  const char *base = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  const struct tps_header *header = (const void *)base;
  if (base == MAP_FAILED || memcmp(header->magic, TPS_RECORD_MAGIC, sizeof header->magic) != 0)
    fail("is no record", path);
  add_slots(totals, base, header->slots);
  add_events(totals, base, header->events);
  add_phases(totals, base, header->phases);
  add_devices(totals, base, header->devices);
  totals->segments += 1;
  totals->lost += header->lost_messages + header->lost_events;
  if (header->thread == TPS_MAIN_SEGMENT)
    totals->state = header->state;
  munmap((void *)(uintptr_t)base, (size_t)status.st_size);
}

struct totals totals_of(const char *folder) {
  static struct totals totals;
  memset(&totals, 0, sizeof totals);
  DIR *stream = opendir(folder);
  if (stream == NULL)
    fail("cannot be opened", folder);
  for (const struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
    char path[4096];
    if (strstr(entry->d_name, TPS_RECORD_SUFFIX) == NULL)
      continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    add_segment(&totals, path);
  }
  closedir(stream);
  return totals;
}
