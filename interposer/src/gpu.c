/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Whether a buffer is in device or host memory. The question goes to a GPU runtime that the
 * application itself has loaded; this library never loads one.
 *
 * Each thread caches answers for the last device allocations as a whole, and for single pages. The
 * cache is dropped when device memory is freed (gpu_free.c). A free that this library cannot see,
 * and host memory that becomes device memory, make an answer wrong until it expires
 * (TPS_ANSWER_TICKS, 15 to 70 ms). Within that time a message can be counted in the wrong memory
 * space; its bytes are not lost.
 */
#include <pthread.h>
#include <string.h>

#include "counters.h"
#include "gpu.h"

#define TPS_ANSWER_TICKS (UINT64_C(1) << 26)
#define PAGE_SHIFT 12

static const struct tps_runtime *runtime;
static pthread_mutex_t look_mutex = PTHREAD_MUTEX_INITIALIZER;

void tps__gpu_look(void) {
  static const struct tps_runtime *const runtimes[] = {&tps__cuda, &tps__hip, &tps__level_zero};
  unsigned long long loaded = tps__libraries_loaded();
  if (__atomic_exchange_n(&tps__process.libraries_seen, loaded, __ATOMIC_RELAXED) == loaded)
    return; /* nothing was loaded since; looking for libraries takes too long to do it every time */
  if (pthread_mutex_trylock(&look_mutex) != 0)
    return; /* another thread does it */
  for (size_t i = 0; i < sizeof runtimes / sizeof *runtimes && runtime == NULL; ++i)
    if (runtimes[i]->look())
      runtime = runtimes[i];
  if (runtime != NULL && tps__gpu() == TPS_GPU_NONE) {
    __atomic_fetch_or(&tps__process.header->flags, (uint32_t)TPS_FLAG_GPU_RUNTIME,
                      __ATOMIC_RELAXED);
    if (tps__mpi_refuses(runtime->kind))
      __atomic_store_n(&tps__process.guarded, true, __ATOMIC_RELEASE);
    __atomic_store_n(&tps__process.gpu, (int)runtime->kind, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&look_mutex);
}

void tps__gpu_finish(void) {
  if (tps__gpu() == TPS_GPU_NONE) /* what a rank loaded after its last message counts, too */
    tps__gpu_look();
  if (runtime != NULL && tps__process.header->visible_devices < 0)
    tps__process.header->visible_devices = runtime->count();
}

/* Writes ordinal and bus id of a new device. Under the lock. */
static void describe(struct tps_device *device, int ordinal) {
  char text[sizeof device->pci] = "";
  int count = runtime->count();
  device->ordinal = ordinal;
  if (ordinal >= 0 && runtime->pci(ordinal, text, (int)sizeof text - 1))
    memcpy(device->pci, text, sizeof text - 1);
  if (count >= 0)
    tps__process.header->visible_devices = count;
  device->used = 1;
}

/* The number of the device with this ordinal; the last one stands for all that find no room. */
static int number_of(int ordinal) {
  struct tps_device *devices = tps__main_segment()->devices;
  int number = 0;
  tps__lock();
  while (number < (int)TPS_MAX_DEVICES - 1 && devices[number].used &&
         devices[number].ordinal != ordinal)
    number += 1;
  if (!devices[number].used)
    describe(&devices[number], ordinal);
  tps__unlock();
  if (number > 0)
    __atomic_fetch_or(&tps__process.header->flags, (uint32_t)TPS_FLAG_SEVERAL_DEVICES,
                      __ATOMIC_RELAXED);
  return number;
}

static bool holds(const struct tps_range *range, uintptr_t pointer, uint64_t now) {
  return pointer >= range->low && pointer < range->high && now < range->expires;
}

/* Asks the runtime and keeps the answer: of the allocation if that is known, else of the page. */
static int ask(struct tps_thread *thread, struct tps_range *page, uintptr_t pointer, uint64_t now) {
  struct tps_answer answer = {.ordinal = -1};
  struct tps_range range = {.low = pointer >> PAGE_SHIFT << PAGE_SHIFT,
                            .high = ((pointer >> PAGE_SHIFT) + 1) << PAGE_SHIFT,
                            .expires = now + TPS_ANSWER_TICKS,
                            .device = TPS_NO_DEVICE};
  if (runtime->ask(pointer, &answer))
    range.device = number_of(answer.ordinal);
  *page = range;
  if (range.device != TPS_NO_DEVICE && answer.high > answer.low) {
    range.low = answer.low;
    range.high = answer.high;
    thread->allocations[thread->next_allocation++ % TPS_ALLOCATION_CACHE] = range;
  }
  return range.device;
}

static void forget(struct tps_thread *thread, uint64_t generation) {
  memset(thread->allocations, 0, sizeof thread->allocations);
  memset(thread->pages, 0, sizeof thread->pages);
  thread->gpu_generation = generation;
}

int tps__gpu_device(const void *buffer) {
  struct tps_thread *thread = &tps__thread;
  uintptr_t pointer = (uintptr_t)buffer;
  uintptr_t number = pointer >> PAGE_SHIFT;
  uint64_t generation = __atomic_load_n(&tps__process.gpu_generation, __ATOMIC_ACQUIRE);
  uint64_t now = tps__process.timed ? thread->now : tps__ticks();
  if (tps__unlikely(thread->gpu_generation != generation))
    forget(thread, generation);
  struct tps_range *page = &thread->pages[(number ^ (number >> 5)) % TPS_PAGE_CACHE];
  if (holds(page, pointer, now))
    return page->device;
  for (size_t i = 0; i < TPS_ALLOCATION_CACHE; ++i)
    if (holds(&thread->allocations[i], pointer, now))
      return thread->allocations[i].device;
  return ask(thread, page, pointer, now);
}
