/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The fast path: what runs for every recorded call. All of it is inlined into the wrappers. */
#ifndef TOPOSEAT_COUNT_H
#define TOPOSEAT_COUNT_H

#include "counters.h"
#include "slots.h"

/* How often the clocks are stamped and GPU runtimes looked for: 2^24 ticks, 4 to 17 ms. */
#define TPS_BEAT_TICKS (UINT64_C(1) << 24)

/* When a call began; 0 when calls are not timed. */
TPS_FAST uint64_t tps__start(void) { return tps__process.timed ? tps__ticks() : 0; }

TPS_FAST bool tps__enter(void) {
  struct tps_thread *thread = &tps__thread;
  if (thread->depth != 0)
    return false;
  if (tps__unlikely(thread->epoch != __atomic_load_n(&tps__process.epoch, __ATOMIC_RELAXED)) &&
      !tps__thread_enter())
    return false;
  thread->depth = 1;
  return true;
}

/* Another number behind every recorded call of this thread. */
static inline uint64_t tps__mark(void) { return tps__thread.now + tps__thread.calls_until_beat; }

/* After the real call: adds how long it took. The time of counting is not part of MPI's. */
TPS_FAST uint64_t tps__spent(uint64_t start) {
  struct tps_thread *thread = &tps__thread;
  if (tps__likely(tps__process.timed)) {
    uint64_t now = tps__ticks();
    thread->now = now;
    if (tps__unlikely(now - thread->beat >= TPS_BEAT_TICKS))
      tps__beat(now);
    return now - start;
  }
  if (tps__unlikely(--thread->calls_until_beat == 0))
    tps__beat(tps__ticks());
  return 0;
}

/*
 * The memory whose bytes the call moved. A completion stands for the nonblocking calls that this
 * thread made since the last one, and several completions in a row for the same calls.
 */
static inline unsigned tps__space_of_call(enum tps_time_kind kind, bool nonblocking) {
  struct tps_thread *thread = &tps__thread;
  if (kind == TPS_TIME_FILE) /* of none */
    return TPS_HOST;
  if (kind == TPS_TIME_COMPLETION) {
    thread->completed = true;
    return thread->pending_on_device ? TPS_DEVICE : TPS_HOST;
  }
  bool on_device = thread->on_device;
  thread->on_device = false;
  if (nonblocking) {
    thread->pending_on_device = on_device || (thread->pending_on_device && !thread->completed);
    thread->completed = false;
  }
  return on_device ? TPS_DEVICE : TPS_HOST;
}

TPS_FAST void tps__leave(enum tps_time_kind kind, bool nonblocking, uint64_t spent) {
  struct tps_thread *thread = &tps__thread;
  unsigned space = TPS_HOST;
  if (tps__unlikely(tps__gpu() != TPS_GPU_NONE))
    space = tps__space_of_call(kind, nonblocking);
  struct tps_time *time = &thread->time[kind][space];
  if (tps__likely(spent != 0))
    tps__bump(&time->ticks, spent);
  tps__bump(&time->calls, 1);
  thread->depth = 0;
}

TPS_FAST int64_t tps__type_size(abi_handle datatype) {
  int size = abi_builtin_size(datatype);
  if (size != 0)
    return size;
  if (tps__unlikely(tps__mpi.Type_size(datatype, &size) != 0))
    return 0;
  if (tps__unlikely(size == ABI_UNDEFINED)) { /* does not fit an int */
    abi_count large = 0;
    if (tps__mpi.Type_size_x != NULL && tps__mpi.Type_size_x(datatype, &large) == 0)
      return large;
    return 0;
  }
  return size;
}

/* The live communicator (or window) of a handle; NULL if it cannot be read. */
TPS_FAST struct tps_comm *tps__comm_of(tps_word argument, bool window) {
  tps_word word = ABI_WORD(ABI_HANDLE(argument));
  unsigned index = tps__comm_cache_index(word);
  if (tps__likely(tps__thread.comms[index].word == word &&
                  tps__thread.generation ==
                      __atomic_load_n(&tps__process.generation, __ATOMIC_ACQUIRE)))
    return tps__thread.comms[index].comm;
  return tps__comm_find(word, window);
}

/* Where a buffer of `bytes` lies that the call sends from, or one-sidedly reads into. */
TPS_FAST int tps__space_of(const void *buffer, uint64_t bytes) {
  if (tps__likely(tps__gpu() == TPS_GPU_NONE) || bytes == 0)
    return TPS_HOST;
  int device = tps__gpu_device(buffer);
  if (device == TPS_NO_DEVICE)
    return TPS_HOST;
  if (tps__unlikely(tps__thread.capture != NULL))
    tps__capture_device(device, bytes);
  else
    tps__use_device(device, bytes);
  return TPS_DEVICE;
}

/* The same without counting it as a use of the device. */
static inline int tps__look_at(const void *buffer) {
  if (tps__likely(tps__gpu() == TPS_GPU_NONE))
    return TPS_HOST;
  return tps__gpu_device(buffer) != TPS_NO_DEVICE ? TPS_DEVICE : TPS_HOST;
}

/* One message to (or, for TPS_ONE_SIDED_FROM, from) rank `peer` of `group`. PROC_NULL is no
 * message. */
TPS_FAST void tps__count(const struct tps_group *group, int peer, enum tps_kind kind, int space,
                         uint64_t bytes) {
  if (peer < 0 || peer >= group->size)
    return;
  int world = group->identity ? peer : group->world[peer];
  uint32_t code = world < 0 ? TPS_PEER_OUTSIDE : (uint32_t)world;
  uint64_t key = TPS_KEY_USED | (uint64_t)kind << 40 | (uint64_t)space << 32 | code;
  if (tps__unlikely(tps__thread.capture != NULL))
    tps__capture_pair(key, bytes);
  else
    tps__count_key(key, bytes);
}

/* Beside a zero count the type may be MPI_DATATYPE_NULL, of which MPI must not be asked. */
TPS_FAST uint64_t tps__bytes(abi_count count, tps_word datatype) {
  if (count <= 0)
    return 0;
  int64_t size = tps__type_size(ABI_HANDLE(datatype));
  return size > 0 ? (uint64_t)count * (uint64_t)size : 0;
}

#endif
