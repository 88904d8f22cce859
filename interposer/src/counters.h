/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is cheap enough to be inlined everywhere: the clock, the flags that every call reads, how a
 * counter is increased, and where a wrapper's real function is kept. */
#ifndef TOPOSEAT_COUNTERS_H
#define TOPOSEAT_COUNTERS_H

#include <time.h>

#include "interposer.h"
#include "newer.h"

/* Inlined for good: the compiler would make calls of what hundreds of wrappers have in common. */
#define TPS_FAST static inline __attribute__((always_inline))

static inline uint64_t tps__nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

TPS_FAST uint64_t tps__ticks(void) {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return tps__nanoseconds();
#endif
}

TPS_FAST void tps__add(uint64_t *counter, uint64_t amount, bool shared) {
  if (tps__unlikely(shared)) {
    __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
  } else {
    uint64_t before = __atomic_load_n(counter, __ATOMIC_RELAXED);
    __atomic_store_n(counter, before + amount, __ATOMIC_RELAXED);
  }
}

/* Adds to a counter of this thread's segment (see toposeat_record.h on threads). */
TPS_FAST void tps__bump(uint64_t *counter, uint64_t amount) {
  tps__add(counter, amount, tps__thread.shared);
}

/* enum tps_gpu */
TPS_FAST int tps__gpu(void) { return __atomic_load_n(&tps__process.gpu, __ATOMIC_ACQUIRE); }

TPS_FAST unsigned tps__file_requests(void) {
  return __atomic_load_n(&tps__process.file_requests, __ATOMIC_RELAXED);
}

TPS_FAST bool tps__guarded(void) {
  return __atomic_load_n(&tps__process.guarded, __ATOMIC_RELAXED);
}

static inline bool tps__recording(void) {
  return __atomic_load_n(&tps__process.recording, __ATOMIC_ACQUIRE);
}

/* The real function behind a wrapper, looked up once; NULL as long as the MPI has none. */
TPS_FAST tps_function *tps__real(tps_function **found, const char *name) {
  tps_function *real = __atomic_load_n(found, __ATOMIC_RELAXED);
  if (tps__unlikely(real == NULL)) {
    tps__see_newer();
    real = tps__find(name);
    __atomic_store_n(found, real, __ATOMIC_RELAXED);
  }
  return real;
}

TPS_FAST unsigned tps__comm_cache_index(tps_word word) {
  return (unsigned)(word ^ (word >> 4) ^ (word >> 9)) % TPS_COMM_CACHE;
}

TPS_FAST unsigned tps__bucket(uint64_t bytes) {
  return bytes == 0 ? 0 : 64u - (unsigned)__builtin_clzll(bytes);
}

/* Keys of one peer lie side by side; phases are scattered. */
TPS_FAST uint64_t tps__slot_home(uint64_t key, uint64_t mask) {
  uint64_t peer = key & 0xffffffffu;
  uint64_t space = (key >> 32) & 1u;
  uint64_t kind = (key >> 40) & 3u;
  uint64_t phase = (key >> TPS_KEY_PHASE_SHIFT) & (TPS_MAX_PHASES - 1);
  return (peer * 8 + kind * 2 + space + phase * 0x9e3779b8u) & mask;
}

#endif
