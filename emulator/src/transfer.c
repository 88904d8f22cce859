/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "transfer.h"

#include <string.h>

#include "state.h"

/* Chunks take about this long on the slowest channel, so that flows that share one take turns. */
static const double chunk_ns = 200e3;
static const uint64_t least_chunk = 4096, most_chunk = 1 << 20;
/* How far ahead of time a copy may reserve channels. */
static const int64_t ahead_ns = 100000;

static bool goes_direct(const struct emu_copy *copy, const struct emu_way *way) {
  if (!way->peer)
    return false;
  return copy->from.reachable_by_peers || copy->to.reachable_by_peers ||
         emu_peer_enabled(copy->from.physical, copy->to.physical);
}

static void choose_paths(struct transfer *transfer, unsigned device) {
  const struct emu_machine *machine = emu_driver.machine;
  const struct emu_place *from = &transfer->copy.from;
  const struct emu_place *to = &transfer->copy.to;
  transfer->engine[0] = transfer->engine[1] = device;
  if (from->on_device && to->on_device && from->physical == to->physical) {
    transfer->local.cap_bytes_per_ns = machine->device[from->physical].copy_bytes_per_ns;
    transfer->local.pair = emu_pair(machine, from->physical, from->physical);
    transfer->path[0] = &transfer->local;
  } else if (from->on_device && to->on_device) {
    const struct emu_way *way = emu_way(machine, from->physical, to->physical);
    const bool direct = goes_direct(&transfer->copy, way);
    transfer->path[0] = direct ? &way->direct : &way->stage_up;
    transfer->path[1] = direct ? NULL : &way->stage_down;
    if (!direct) { /* each device drives its own link */
      transfer->engine[0] = from->physical;
      transfer->engine[1] = to->physical;
    }
  } else if (from->on_device)
    transfer->path[0] = &machine->device[from->physical].to_host;
  else if (to->on_device)
    transfer->path[0] = &machine->device[to->physical].from_host;
}

static uint64_t chunk_of(const struct transfer *transfer) {
  double slowest = 1e18;
  for (int stage = 0; stage < 2 && transfer->path[stage]; ++stage) {
    const struct emu_path *path = transfer->path[stage];
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

void emu_transfer_begin(struct transfer *transfer, unsigned device, int64_t start_ns) {
  choose_paths(transfer, device);
  transfer->chunk = chunk_of(transfer);
  transfer->moved = 0;
  for (int stage = 0; stage < 2; ++stage) {
    transfer->clock_ns[stage] = start_ns;
    if (transfer->path[stage])
      start_ns += transfer->path[stage]->latency_ns;
    transfer->clock_ns[stage] = start_ns;
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

bool emu_transfer_advance(struct transfer *transfer, int64_t now_ns, int64_t *due_ns) {
  const uint64_t total = transfer->copy.width * transfer->copy.rows;
  while (transfer->moved < total) {
    if (transfer->path[0] && transfer->clock_ns[0] > now_ns + ahead_ns) {
      *due_ns = transfer->clock_ns[0] - ahead_ns;
      return false;
    }
    const uint64_t left = total - transfer->moved;
    const uint64_t bytes = left < transfer->chunk ? left : transfer->chunk;
    move_bytes(&transfer->copy, transfer->moved, bytes);
    transfer->moved += bytes;
    int64_t arrived = transfer->clock_ns[0];
    for (int stage = 0; stage < 2 && transfer->path[stage]; ++stage) {
      if (transfer->clock_ns[stage] < arrived)
        transfer->clock_ns[stage] = arrived; /* store and forward */
      arrived = emu_reserve(emu_driver.machine, transfer->path[stage], transfer->engine[stage],
                            bytes, transfer->clock_ns[stage]);
      transfer->clock_ns[stage] = arrived;
    }
  }
  *due_ns = transfer->clock_ns[transfer->path[1] ? 1 : 0];
  return true;
}
