/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What two processes do with each other, well and badly. */
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pair.h"

static double now(void) {
  struct timespec at;
  (void)clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static uint64_t memory(struct side *side, size_t bytes, bool on_device) {
  uint64_t pointer = 0;
  if (!on_device)
    return host_memory(bytes);
  EXPECT(TDC_OK, tdc_allocate(side->context, bytes + 64, &pointer));
  return pointer;
}

static void release(struct side *side, uint64_t pointer, bool on_device) {
  if (on_device)
    EXPECT(TDC_OK, tdc_free(side->context, pointer));
  else
    free((void *)(uintptr_t)pointer);
}

struct exchange {
  size_t bytes;
  size_t offset; /* into device memory */
  tdc_protocol wanted, expected;
  bool from_device, to_device, fell_back;
};

/* Side 0 sends, side 1 receives and checks. */
static void exchange(struct side *side, const struct exchange *what, unsigned seed) {
  tdc_report report;
  const bool sender = side->number == 0;
  const bool on_device = sender ? what->from_device : what->to_device;
  const uint64_t base = memory(side, what->bytes + what->offset, on_device);
  const uint64_t pointer = base + (on_device ? what->offset : 0);
  if (sender) {
    put_pattern(side, pointer, what->bytes, seed, on_device);
    EXPECT(TDC_OK, tdc_send(side->link, pointer, what->bytes, &report));
  } else {
    EXPECT(TDC_OK, tdc_receive(side->link, pointer, what->bytes, what->wanted, &report));
    check_pattern(side, pointer, what->bytes, seed, on_device);
    EXPECT(what->fell_back, report.fell_back);
  }
  EXPECT(what->expected, report.protocol);
  EXPECT(what->bytes, report.bytes);
  release(side, base, on_device);
  EXPECT(TDC_OK, tdc_commit_frees(side->context));
}

static void every_protocol(struct side *side) {
  static const size_t sizes[] = {1, 1000, 65536, 700001, 3 * 524288};
  static const struct {
    tdc_protocol wanted, expected;
  } protocols[] = {{TDC_AUTO, TDC_GET},
                   {TDC_GET, TDC_GET},
                   {TDC_PUT, TDC_PUT},
                   {TDC_COOPERATE, TDC_COOPERATE},
                   {TDC_STAGED, TDC_STAGED}};
  unsigned seed = 0;
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; ++s)
    for (size_t p = 0; p < sizeof protocols / sizeof protocols[0]; ++p) {
      const struct exchange what = {.bytes = sizes[s],
                                    .offset = s % 2 ? 24 : 0,
                                    .wanted = protocols[p].wanted,
                                    .expected = protocols[p].expected,
                                    .from_device = true,
                                    .to_device = true};
      exchange(side, &what, ++seed);
    }
}

static void nothing_to_move(struct side *side) {
  tdc_report report;
  for (tdc_protocol wanted = TDC_AUTO; wanted <= TDC_STAGED; ++wanted)
    if (side->number == 0)
      EXPECT(TDC_OK, tdc_send(side->link, 0, 0, &report));
    else
      EXPECT(TDC_OK, tdc_receive(side->link, 0, 0, wanted, &report));
}

static void host_ends(struct side *side) {
  static const struct exchange cases[] = {
      {100000, 0, TDC_AUTO, TDC_STAGED, false, true, false},
      {100000, 0, TDC_AUTO, TDC_STAGED, true, false, false},
      {100000, 0, TDC_AUTO, TDC_STAGED, false, false, false},
      {100000, 0, TDC_PUT, TDC_PUT, false, true, false}, /* the sender attaches */
      {100000, 0, TDC_GET, TDC_GET, true, false, false}, /* the receiver attaches */
      {100000, 0, TDC_GET, TDC_STAGED, false, true, true},
      {100000, 0, TDC_PUT, TDC_STAGED, true, false, true},
      {100000, 0, TDC_COOPERATE, TDC_STAGED, false, true, true},
  };
  for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; ++i)
    exchange(side, &cases[i], i);
}

static void no_peer_access(struct side *side) {
  for (tdc_protocol wanted = TDC_AUTO; wanted <= TDC_STAGED; ++wanted) {
    const struct exchange what = {.bytes = 200000,
                                  .wanted = wanted,
                                  .expected = TDC_STAGED,
                                  .from_device = true,
                                  .to_device = true,
                                  .fell_back = wanted != TDC_AUTO && wanted != TDC_STAGED};
    exchange(side, &what, (unsigned)wanted);
  }
}

static void measured_slower(struct side *side) {
  tdc_set_direct_below(side->link, 4096);
  const struct exchange small = {4095, 0, TDC_AUTO, TDC_GET, true, true, false};
  const struct exchange large = {4096, 0, TDC_AUTO, TDC_STAGED, true, true, false};
  exchange(side, &small, 1);
  exchange(side, &large, 2);
}

static void too_small(struct side *side) {
  const uint64_t pointer = memory(side, 4096, true);
  put_pattern(side, pointer, 4096, (unsigned)side->number, true);
  tdc_report report;
  if (side->number == 0) {
    EXPECT(TDC_TOO_SMALL, tdc_send(side->link, pointer, 4096, &report));
    EXPECT(TDC_OK, tdc_send(side->link, pointer, 4096, &report));
  } else {
    EXPECT(TDC_TOO_SMALL, tdc_receive(side->link, pointer, 4095, TDC_AUTO, &report));
    check_pattern(side, pointer, 4096, 1, true); /* untouched, and the link goes on */
    EXPECT(TDC_OK, tdc_receive(side->link, pointer, 4096, TDC_AUTO, &report));
    check_pattern(side, pointer, 4096, 0, true);
  }
}

/* Three buffers with room for two: the least recently used one is closed. */
static void bounded_cache(struct side *side) {
  static const struct {
    int buffer;
    bool was_open;
  } steps[] = {{0, false}, {0, true},  {1, false}, {0, true}, {2, false},
               {0, true},  {1, false}, {2, false}, {2, true}, {1, true}};
  uint64_t buffers[3];
  for (int i = 0; i < 3; ++i) {
    buffers[i] = memory(side, 4096, true);
    put_pattern(side, buffers[i], 4096, (unsigned)(side->number == 0 ? i : 99), true);
  }
  for (unsigned i = 0; i < sizeof steps / sizeof steps[0]; ++i) {
    tdc_report report;
    if (side->number == 0)
      EXPECT(TDC_OK, tdc_send(side->link, buffers[steps[i].buffer], 4096, &report));
    else {
      EXPECT(TDC_OK, tdc_receive(side->link, buffers[0], 4096, TDC_GET, &report));
      EXPECT(steps[i].was_open, report.was_open);
      check_pattern(side, buffers[0], 4096, (unsigned)steps[i].buffer, true);
    }
  }
}

static void without_cache(struct side *side) {
  const uint64_t pointer = memory(side, 4096, true);
  for (int i = 0; i < 3; ++i) {
    tdc_report report;
    if (side->number == 0)
      EXPECT(TDC_OK, tdc_send(side->link, pointer, 4096, &report));
    else {
      EXPECT(TDC_OK, tdc_receive(side->link, pointer, 4096, TDC_GET, &report));
      EXPECT(false, report.was_open);
    }
  }
}

/* Both sides send, free, and get the same addresses again; nothing stale is ever read. */
static void free_and_reuse(struct side *side) {
  static const tdc_protocol protocols[] = {TDC_GET, TDC_PUT, TDC_COOPERATE, TDC_STAGED};
  const char *given = getenv("TOPOSEAT_DEVCOPY_ROUNDS");
  const unsigned rounds = given ? (unsigned)strtoul(given, NULL, 10) : 10000;
  for (unsigned i = 0; i < rounds; ++i) {
    const size_t bytes = 64 + i % 1000;
    const uint64_t pointer = memory(side, bytes, true);
    const bool sends = (i % 2 == 0) == (side->number == 0);
    if (sends) {
      put_pattern(side, pointer, bytes, i, true);
      EXPECT(TDC_OK, tdc_send(side->link, pointer, bytes, NULL));
    } else {
      EXPECT(TDC_OK, tdc_receive(side->link, pointer, bytes, protocols[i / 2 % 4], NULL));
      check_pattern(side, pointer, bytes, i, true);
    }
    EXPECT(TDC_OK, tdc_free(side->context, pointer));
    EXPECT(TDC_OK, tdc_commit_frees(side->context));
  }
}

/* One side frees while the other is busy elsewhere: nothing is freed until it looks. */
static void late_commit(struct side *side) {
  const uint64_t pointer = memory(side, 4096, true);
  if (side->number == 0) {
    EXPECT(TDC_OK, tdc_send(side->link, pointer, 4096, NULL));
    EXPECT(TDC_OK, tdc_free(side->context, pointer));
    EXPECT(TDC_TIMEOUT, tdc_commit_frees(side->context));
    while (tdc_commit_frees(side->context) != TDC_OK)
      ;
  } else {
    EXPECT(TDC_OK, tdc_receive(side->link, pointer, 4096, TDC_GET, NULL));
    const struct timespec rest = {0, 800000000};
    (void)nanosleep(&rest, NULL);
    EXPECT(TDC_OK, tdc_progress(side->context, 0.5));
  }
}

static void peer_is_killed(struct side *side) {
  const size_t bytes = (size_t)32 << 20;
  const uint64_t pointer = memory(side, bytes, true);
  if (side->number == 1) {
    EXPECT(TDC_OK, tdc_receive(side->link, pointer, bytes, TDC_GET, NULL));
    (void)kill(getpid(), SIGKILL);
  }
  EXPECT(TDC_OK, tdc_send(side->link, pointer, bytes, NULL));
  const double begin = now();
  EXPECT(TDC_PEER_GONE, tdc_send(side->link, pointer, bytes, NULL));
  EXPECT(TDC_PEER_GONE, tdc_send(side->link, pointer, bytes, NULL)); /* and stays so */
  EXPECT(true, now() - begin < 5);
  EXPECT(TDC_OK, tdc_free(side->context, pointer)); /* it holds nothing any more */
  EXPECT(TDC_OK, tdc_commit_frees(side->context));
}

/* Killed in the middle of a staged transfer: this side must not wait for chunks for ever. */
static void peer_is_killed_midway(struct side *side) {
  const size_t bytes = (size_t)256 << 20;
  const uint64_t pointer = memory(side, bytes, true);
  if (side->number == 1) {
    (void)alarm(0);
    const pid_t self = getpid();
    if (fork() == 0) {
      const struct timespec rest = {0, 15000000};
      (void)nanosleep(&rest, NULL);
      (void)kill(self, SIGKILL);
      _exit(0);
    }
    for (;;)
      (void)tdc_receive(side->link, pointer, bytes, TDC_STAGED, NULL);
  }
  tdc_result result = TDC_OK;
  while (result == TDC_OK)
    result = tdc_send(side->link, pointer, bytes, NULL);
  EXPECT(TDC_PEER_GONE, result);
}

static void silent_peer(struct side *side) {
  const uint64_t pointer = memory(side, 4096, true);
  if (side->number == 0) {
    const double begin = now();
    EXPECT(TDC_TIMEOUT, tdc_send(side->link, pointer, 4096, NULL));
    EXPECT(true, now() - begin < 5);
  } else {
    const struct timespec rest = {1, 0};
    (void)nanosleep(&rest, NULL);
  }
}

static void stranger(struct side *side) {
  if (side->number == 1) {
    char noise[1024];
    memset(noise, 'x', sizeof noise);
    EXPECT(sizeof noise, write(side->socket, noise, sizeof noise));
    EXPECT(true, read(side->socket, noise, 1) >= 0);
    return;
  }
  tdc_link *link = NULL;
  EXPECT(TDC_PROTOCOL, tdc_connect(side->context, side->socket, &link));
  EXPECT(true, link == NULL);
}

static void noise_later(struct side *side) {
  const uint64_t pointer = memory(side, 4096, true);
  if (side->number == 1) {
    char noise[1024];
    memset(noise, 'x', sizeof noise);
    EXPECT(sizeof noise, write(side->socket, noise, sizeof noise));
    const struct timespec rest = {0, 300000000};
    (void)nanosleep(&rest, NULL);
    return;
  }
  EXPECT(TDC_PROTOCOL, tdc_send(side->link, pointer, 4096, NULL));
  EXPECT(TDC_PROTOCOL, tdc_receive(side->link, pointer, 4096, TDC_AUTO, NULL)); /* for good */
}

static void bad_arguments(struct side *side) {
  tdc_context *context = NULL;
  tdc_link *link = NULL;
  uint64_t pointer = 0;
  EXPECT(TDC_ARGUMENT, tdc_open(99, NULL, &context));
  EXPECT(TDC_ARGUMENT, tdc_open(-1, NULL, &context));
  EXPECT(TDC_ARGUMENT, tdc_open(0, NULL, NULL));
  EXPECT(TDC_ARGUMENT, tdc_connect(side->context, -1, &link));
  EXPECT(TDC_ARGUMENT, tdc_allocate(side->context, 0, &pointer));
  EXPECT(TDC_ARGUMENT, tdc_free(side->context, 12345));
  EXPECT(TDC_ARGUMENT, tdc_send(side->link, 0, 10, NULL));
  EXPECT(TDC_ARGUMENT, tdc_receive(side->link, 1, 10, (tdc_protocol)9, NULL));
  EXPECT(TDC_DRIVER, tdc_allocate(side->context, (size_t)1 << 50, &pointer));
  EXPECT(2, tdc_driver_error(side->context)); /* out of memory */
  pointer = memory(side, 100, true);
  if (side->number == 0)
    EXPECT(TDC_ARGUMENT, tdc_send(side->link, pointer, 4096, NULL)); /* beyond its end */
}

const struct scenario scenarios[] = {
    {"every protocol", {0, 1}, {0}, false, false, false, every_protocol},
    {"small chunks", {0, 1}, {.chunk = 4096, .depth = 3}, false, false, false, every_protocol},
    {"one device", {1, 1}, {0}, false, false, false, every_protocol},
    {"nothing to move", {0, 1}, {0}, false, false, false, nothing_to_move},
    {"host ends", {0, 1}, {0}, false, false, false, host_ends},
    {"no peer access", {0, 2}, {0}, false, false, true, no_peer_access},
    {"measured slower", {0, 1}, {0}, false, false, false, measured_slower},
    {"too small", {0, 1}, {0}, false, false, false, too_small},
    {"bounded cache", {0, 1}, {.cache_size = 2}, false, false, false, bounded_cache},
    {"without cache", {0, 1}, {.no_cache = true}, false, false, false, without_cache},
    {"free and reuse", {0, 1}, {.cache_size = 8}, false, false, false, free_and_reuse},
    {"late commit", {0, 1}, {.timeout_s = 0.3}, false, false, false, late_commit},
    {"peer is killed", {0, 1}, {0}, false, true, false, peer_is_killed},
    {"peer is killed midway", {0, 1}, {0}, false, true, false, peer_is_killed_midway},
    {"silent peer", {0, 1}, {.timeout_s = 0.3}, false, false, false, silent_peer},
    {"stranger", {0, 1}, {.timeout_s = 1}, true, false, false, stranger},
    {"noise later", {0, 1}, {.timeout_s = 1}, false, false, false, noise_later},
    {"bad arguments", {0, 1}, {0}, false, false, false, bad_arguments},
    {"virtual memory", {0, 1}, {0}, false, false, false, virtual_memory},
    {"virtual memory, one device", {1, 1}, {0}, false, false, false, virtual_memory},
    {"virtual memory, no cache", {0, 1}, {.no_cache = true}, false, false, false, virtual_memory},
    {"virtual memory, no handle", {0, 1}, {0}, false, false, false, virtual_private},
    {"virtual memory, two pieces", {0, 1}, {0}, false, false, false, virtual_pieces},
    {"virtual memory, no peers", {0, 2}, {0}, false, false, true, virtual_no_peers},
};
const unsigned scenario_count = sizeof scenarios / sizeof scenarios[0];
