/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "transfer.h"

#include <string.h>

/* Chunks take about this long on the slowest channel, so that flows that share one take turns. */
static const double chunk_ns = 200e3;
static const uint64_t least_chunk = 4096, most_chunk = 1 << 20;
/* A program that asks all the time gets the last answer for this long. */
static const int64_t look_again_ns = 20000;

static bool goes_direct(const struct emu_copy *copy, const struct emu_way *way) {
  if (!way->peer)
    return false;
  return copy->from.reachable_by_peers || copy->to.reachable_by_peers ||
         emu_peer_enabled(copy->from.physical, copy->to.physical);
}

static void go(struct emu_sent *way, const struct emu_path *path) {
  way->path[way->stages++] = *path;
}

static struct emu_path within(unsigned device) {
  const struct emu_machine *machine = emu_driver.machine;
  return (struct emu_path){.cap_bytes_per_ns = machine->device[device].copy_bytes_per_ns,
                           .pair = emu_pair(machine, device, device)};
}

static void choose_paths(struct transfer *transfer) {
  const struct emu_machine *machine = emu_driver.machine;
  const struct emu_place *from = &transfer->copy.from;
  const struct emu_place *to = &transfer->copy.to;
  struct emu_sent *sent = &transfer->way;
  if (from->on_device && to->on_device && from->physical == to->physical) {
    const struct emu_path local = within(from->physical);
    go(sent, &local);
  } else if (from->on_device && to->on_device) {
    const struct emu_way *way = emu_way(machine, from->physical, to->physical);
    if (goes_direct(&transfer->copy, way)) {
      go(sent, &way->direct);
    } else {
      go(sent, &way->stage_up);
      go(sent, &way->stage_down);
    }
  } else if (from->on_device)
    go(sent, &machine->device[from->physical].to_host);
  else if (to->on_device)
    go(sent, &machine->device[to->physical].from_host);
}

static uint64_t chunk_of(const struct emu_sent *way) {
  double slowest = 1e18;
  for (unsigned stage = 0; stage < way->stages; ++stage) {
    const struct emu_path *path = &way->path[stage];
    if (path->cap_bytes_per_ns > 0 && path->cap_bytes_per_ns < slowest)
      slowest = path->cap_bytes_per_ns;
    for (uint32_t i = 0; i < path->count; ++i)
      if (emu_driver.machine->channel[path->channel[i]].bytes_per_ns < slowest)
        slowest = emu_driver.machine->channel[path->channel[i]].bytes_per_ns;
  }
  const double bytes = slowest * chunk_ns;
  if (bytes > (double)most_chunk)
    return most_chunk;
  return bytes < (double)least_chunk ? least_chunk : (uint64_t)bytes;
}

void emu_transfer_begin(struct transfer *transfer, int64_t start_ns) {
  struct emu_sent *way = &transfer->way;
  choose_paths(transfer);
  way->under_way = true;
  way->bytes = transfer->copy.width * transfer->copy.rows;
  way->chunk = chunk_of(way);
  for (unsigned stage = 0; stage < 2; ++stage) {
    if (stage < way->stages)
      start_ns += way->path[stage].latency_ns;
    way->clock_ns[stage] = start_ns;
  }
}

/* Copies bytes `at` to `at + bytes` of all rows laid one after the other. */
static void move_bytes(const struct emu_copy *copy, uint64_t at, uint64_t bytes) {
  while (bytes) {
    const uint64_t row = at / copy->width;
    const uint64_t column = at % copy->width;
    const uint64_t rest = copy->width - column;
    const uint64_t part = bytes < rest ? bytes : rest;
    memmove(copy->to.bytes + row * copy->to_pitch + column,
            copy->from.bytes + row * copy->from_pitch + column, part);
    at += part;
    bytes -= part;
  }
}

/* Of a copy that uses no link, within host memory. */
static bool move_all(struct transfer *transfer, int64_t *due_ns) {
  move_bytes(&transfer->copy, 0, transfer->way.bytes);
  *due_ns = transfer->way.clock_ns[0];
  return true;
}

bool emu_transfer_advance(struct transfer *transfer, int64_t now_ns, int64_t *due_ns) {
  if (!transfer->way.stages || !transfer->way.bytes)
    return move_all(transfer, due_ns);
  if (!transfer->number)
    transfer->number = emu_links_add(&transfer->way);
  if (!transfer->number || (transfer->looked_ns && now_ns < transfer->looked_ns + look_again_ns)) {
    *due_ns = transfer->number ? transfer->due_ns : now_ns + look_again_ns;
    return false;
  }
  uint64_t moved = 0;
  const bool done = emu_links_look(transfer->number, now_ns, &moved, &transfer->due_ns);
  move_bytes(&transfer->copy, transfer->moved, moved - transfer->moved);
  transfer->moved = moved;
  transfer->looked_ns = now_ns;
  if (done)
    transfer->number = 0;
  *due_ns = transfer->due_ns;
  return done;
}

void emu_transfer_end(struct transfer *transfer) {
  if (transfer->number)
    emu_links_forget(transfer->number);
  transfer->number = 0;
}
