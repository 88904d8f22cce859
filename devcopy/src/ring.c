/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Staged copies: through a ring of host memory that both sides map, several chunks in flight. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "link.h"

static const size_t page = 4096;

static size_t whole_pages(size_t bytes) { return (bytes + page - 1) / page * page; }

static size_t ring_bytes(size_t chunk, unsigned depth) { return page + depth * whole_pages(chunk); }

tdc_result tdc_map_ring(tdc_context *context, struct tdc_ring *ring, int file, size_t chunk,
                        unsigned depth) {
  struct stat is;
  const size_t bytes = ring_bytes(chunk, depth);
  if (chunk == 0 || chunk > (size_t)1 << 30 || depth == 0 || depth > TDC_MAX_DEPTH ||
      fstat(file, &is) != 0 || (size_t)is.st_size < bytes)
    return TDC_PROTOCOL;
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED)
    return TDC_MEMORY;
  ring->head = at;
  ring->slots = (char *)at + page;
  ring->chunk = chunk;
  ring->depth = depth;
  ring->mapped = bytes;
  /* Pinned memory lets the copy engine work beside the CPU; without it copies are only slower. */
  ring->registered = context->driver->register_host(ring->slots, bytes - page, 0) == 0;
  return TDC_OK;
}

tdc_result tdc_make_ring(tdc_context *context, struct tdc_ring *ring, int *file) {
  const size_t chunk = context->options.chunk;
  const unsigned depth = context->options.depth;
  *file = memfd_create("toposeat-devcopy-ring", MFD_CLOEXEC);
  if (*file < 0)
    return TDC_MEMORY;
  tdc_result result = TDC_MEMORY;
  if (ftruncate(*file, (off_t)ring_bytes(chunk, depth)) == 0)
    result = tdc_map_ring(context, ring, *file, chunk, depth);
  if (result != TDC_OK) {
    (void)close(*file);
    *file = -1;
  }
  return result;
}

void tdc_unmap_ring(tdc_context *context, struct tdc_ring *ring) {
  if (!ring->head)
    return;
  if (ring->registered)
    (void)context->driver->unregister_host(ring->slots);
  (void)munmap((void *)ring->head, ring->mapped);
  memset(ring, 0, sizeof *ring);
}

/* One side's pass over the chunks of a transfer. */
struct pass {
  tdc_link *link;
  struct tdc_ring *ring;
  uint64_t pointer;
  size_t bytes;
  bool on_device, out;
  uint64_t first; /* number of the transfer's first chunk in the ring's life */
  uint64_t count, begun, ended;
};

static char *slot(const struct pass *pass, uint64_t number) {
  return pass->ring->slots +
         ((pass->first + number) % pass->ring->depth) * whole_pages(pass->ring->chunk);
}

/* Begins the copy of a chunk. Host memory is copied at once. */
static tdc_result begin(struct pass *pass) {
  tdc_context *context = pass->link->context;
  const size_t at = (size_t)pass->begun * pass->ring->chunk;
  const size_t left = pass->bytes - at;
  const size_t bytes = left < pass->ring->chunk ? left : pass->ring->chunk;
  char *here = slot(pass, pass->begun);
  if (!pass->on_device) {
    char *host = (char *)(uintptr_t)(pass->pointer + at);
    memcpy(pass->out ? here : host, pass->out ? host : here, bytes);
  } else {
    const int code =
        pass->out ? context->driver->copy_out(here, pass->pointer + at, bytes, context->stream)
                  : context->driver->copy_in(pass->pointer + at, here, bytes, context->stream);
    void *event = context->events[pass->begun % pass->ring->depth];
    if (!tdc_good(context, code) ||
        !tdc_good(context, context->driver->event_record(event, context->stream)))
      return TDC_DRIVER;
  }
  ++pass->begun;
  return TDC_OK;
}

/* Whether the oldest chunk under way has arrived. */
static tdc_result has_ended(struct pass *pass, bool *ended) {
  tdc_context *context = pass->link->context;
  *ended = pass->ended < pass->begun;
  if (!*ended || !pass->on_device)
    return TDC_OK;
  const int code = context->driver->event_query(context->events[pass->ended % pass->ring->depth]);
  *ended = code != TDC_DRIVER_NOT_READY;
  return !*ended || tdc_good(context, code) ? TDC_OK : TDC_DRIVER;
}

/* Whether the other side has left room for (filled) the next chunk. */
static bool may_begin(const struct pass *pass) {
  if (pass->begun == pass->count)
    return false;
  const uint64_t number = pass->first + pass->begun;
  if (pass->out)
    return number < atomic_load(&pass->ring->head->consumed) + pass->ring->depth;
  return number < atomic_load(&pass->ring->head->published) &&
         pass->begun - pass->ended < pass->ring->depth;
}

static void rest(unsigned idle) {
  if (idle < 50)
    (void)sched_yield();
  else {
    const struct timespec little = {0, 20000};
    (void)nanosleep(&little, NULL);
  }
}

static tdc_result run(struct pass *pass) {
  double deadline = tdc_now() + pass->link->context->options.timeout_s;
  unsigned idle = 0;
  while (pass->ended < pass->count) {
    bool moved = false;
    tdc_result result = TDC_OK;
    if (may_begin(pass)) {
      result = begin(pass);
      moved = true;
    }
    bool ended = false;
    if (result == TDC_OK)
      result = has_ended(pass, &ended);
    if (result != TDC_OK)
      return tdc_break(pass->link, result);
    if (ended) {
      ++pass->ended;
      atomic_store(pass->out ? &pass->ring->head->published : &pass->ring->head->consumed,
                   pass->first + pass->ended);
    }
    if (moved || ended) {
      idle = 0;
      deadline = tdc_now() + pass->link->context->options.timeout_s;
      continue;
    }
    if (atomic_load(&pass->ring->head->failed))
      return tdc_break(pass->link, TDC_PEER_GONE);
    if (++idle % 64 == 0 && !tdc_peer_lives(pass->link))
      return tdc_break(pass->link, TDC_PEER_GONE);
    if (tdc_now() > deadline)
      return tdc_break(pass->link, TDC_TIMEOUT);
    rest(idle);
  }
  return TDC_OK;
}

static tdc_result pass_ring(tdc_link *link, struct tdc_ring *ring, uint64_t pointer, size_t bytes,
                            bool on_device, bool out) {
  struct pass pass = {.link = link,
                      .ring = ring,
                      .pointer = pointer,
                      .bytes = bytes,
                      .on_device = on_device,
                      .out = out,
                      .count = (bytes + ring->chunk - 1) / ring->chunk};
  /* Both sides have ended all earlier transfers: the two counters are equal. */
  pass.first = atomic_load(out ? &ring->head->published : &ring->head->consumed);
  return run(&pass);
}

tdc_result tdc_push_ring(tdc_link *link, uint64_t pointer, size_t bytes, bool on_device) {
  return pass_ring(link, &link->out, pointer, bytes, on_device, true);
}

tdc_result tdc_pull_ring(tdc_link *link, uint64_t pointer, size_t bytes, bool on_device) {
  return pass_ring(link, &link->in, pointer, bytes, on_device, false);
}
