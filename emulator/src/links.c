/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "links.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "state.h"

/* How far ahead of time chunks are sent. */
static const int64_t ahead_ns = 100000;

/* ---- chunks */

/* A chunk's turn on what serves one after the other: when it is done there. */
static int64_t take_turn(int64_t *free_at_ns, int64_t start_ns, uint64_t bytes,
                         double bytes_per_ns) {
  const int64_t begin = *free_at_ns > start_ns ? *free_at_ns : start_ns;
  *free_at_ns = begin + (int64_t)((double)bytes / bytes_per_ns);
  return *free_at_ns;
}

/* What both directions of a pair share. */
static int64_t *both_ways(struct emu_links *links, const struct emu_path *path) {
  const struct emu_machine *machine = emu_machine();
  const unsigned from = path->pair / machine->devices;
  const unsigned to = path->pair % machine->devices;
  return &links->both_free_at_ns[from < to ? path->pair : emu_pair(machine, to, from)];
}

/* Sends bytes along a path as soon as the start and all that they occupy allow. Returns when the
   last byte arrives (without the path's latency). */
static int64_t reserve(struct emu_links *links, const struct emu_path *path, uint64_t bytes,
                       int64_t start_ns) {
  int64_t end = start_ns;
  if (path->cap_bytes_per_ns > 0)
    end = take_turn(&links->pair_free_at_ns[path->pair], start_ns, bytes, path->cap_bytes_per_ns);
  if (path->both_bytes_per_ns > 0) {
    const int64_t done =
        take_turn(both_ways(links, path), start_ns, bytes, path->both_bytes_per_ns);
    end = done > end ? done : end;
  }
  for (uint32_t i = 0; i < path->count; ++i) {
    /* Each channel by itself (cut-through): a flow that queues before a slow channel does not keep
       others from the fast ones behind it. */
    const uint16_t channel = path->channel[i];
    const int64_t done = take_turn(&links->free_at_ns[channel], start_ns, bytes,
                                   emu_machine()->channel[channel].bytes_per_ns);
    if (done > end)
      end = done;
  }
  return end;
}

static void send_chunk(struct emu_links *links, struct emu_sent *copy) {
  const uint64_t left = copy->bytes - copy->moved;
  const uint64_t bytes = left < copy->chunk ? left : copy->chunk;
  int64_t arrived = copy->clock_ns[0];
  for (unsigned stage = 0; stage < copy->stages; ++stage) {
    if (copy->clock_ns[stage] < arrived)
      copy->clock_ns[stage] = arrived; /* store and forward */
    arrived = reserve(links, &copy->path[stage], bytes, copy->clock_ns[stage]);
    copy->clock_ns[stage] = arrived;
  }
  copy->moved += bytes;
  copy->under_way = copy->moved < copy->bytes;
}

/* Sends all chunks whose turn comes by then, whoever's they are. */
static void send_all(struct emu_links *links, int64_t until_ns) {
  for (;;) {
    struct emu_sent *next = NULL;
    for (unsigned i = 0; i < links->used; ++i) {
      struct emu_sent *each = &links->copy[i];
      if (each->under_way && each->clock_ns[0] <= until_ns &&
          (!next || each->clock_ns[0] < next->clock_ns[0]))
        next = each;
    }
    if (!next)
      return;
    send_chunk(links, next);
  }
}

/* ---- copies */

static struct emu_sent *entry_of_the_dead(struct emu_links *links) {
  for (unsigned i = 0; i < links->used; ++i)
    if (kill(links->copy[i].owner, 0) != 0 && errno == ESRCH)
      return &links->copy[i];
  return NULL;
}

static struct emu_sent *free_entry(struct emu_links *links) {
  for (unsigned i = 0; i < links->used; ++i)
    if (links->copy[i].owner == 0)
      return &links->copy[i];
  /* The dead are looked for now and then, and when there is no other place. */
  struct emu_sent *entry = links->used % 64 == 63 ? entry_of_the_dead(links) : NULL;
  if (!entry && links->used < EMU_MAX_COPIES)
    return &links->copy[links->used++];
  return entry ? entry : entry_of_the_dead(links);
}

unsigned emu_links_add(const struct emu_sent *copy) {
  struct emu_links *links = emu_state_lock();
  struct emu_sent *entry = free_entry(links);
  if (entry) {
    entry->under_way = false; /* while it is written: this process may be killed */
    *entry = *copy;
    entry->owner = getpid();
  }
  const unsigned number = entry ? (unsigned)(entry - links->copy) + 1 : 0;
  emu_state_unlock();
  return number;
}

static void release(struct emu_links *links, struct emu_sent *entry) {
  entry->under_way = false;
  entry->owner = 0;
  while (links->used && links->copy[links->used - 1].owner == 0)
    --links->used;
}

bool emu_links_look(unsigned number, int64_t now_ns, uint64_t *moved, int64_t *due_ns) {
  struct emu_links *links = emu_state_lock();
  struct emu_sent *entry = &links->copy[number - 1];
  send_all(links, now_ns + ahead_ns);
  const bool done = !entry->under_way;
  *moved = entry->moved;
  *due_ns = done ? entry->clock_ns[entry->stages - 1] : entry->clock_ns[0] - ahead_ns;
  if (done)
    release(links, entry);
  emu_state_unlock();
  return done;
}

void emu_links_forget(unsigned number) {
  struct emu_links *links = emu_state_lock();
  release(links, &links->copy[number - 1]);
  emu_state_unlock();
}
