/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Device or host, asked of a GPU runtime that the application itself has loaded; none is ever
 * loaded here.
 *
 * Answers are kept per thread: one device allocation, and single pages. Nothing tells this library
 * when memory is freed (a statically linked CUDA runtime frees through function pointers), so an
 * answer expires after TPS_ANSWER_TICKS (15 to 70 ms). A buffer that is freed and whose address
 * comes back as the other kind of memory within that time is counted in the wrong space; its bytes
 * are not lost. Level Zero needs the application's context for this question: its buffers are
 * counted as host memory and the record says so.
 */
#include <dlfcn.h>
#include <string.h>

#include "count.h"

#define TPS_ANSWER_TICKS (UINT64_C(1) << 26)
#define PAGE_SHIFT 12

/* The CUDA driver's attribute numbers; HIP took them over. */
enum { ATTRIBUTE_MEMORY_TYPE = 2, ATTRIBUTE_IS_MANAGED = 8, ATTRIBUTE_DEVICE_ORDINAL = 9 };

typedef int ask_attribute(void *answer, int attribute, uintptr_t pointer);
typedef int ask_range(uintptr_t *start, size_t *size, uintptr_t pointer);
typedef int ask_pci(char *text, int length, int device);
typedef int ask_count(int *count);

static struct {
  int device_memory; /* the runtime's number for device memory */
  ask_attribute *attribute;
  ask_range *range;
  ask_pci *pci;
  ask_count *count;
} runtime;

static tps_function *symbol(void *library, const char *name) {
  union tps_address found = {.object = dlsym(library, name)};
  return found.function;
}

static void *loaded(const char *name) { return dlopen(name, RTLD_NOLOAD | RTLD_LAZY); }

static bool look_for_cuda(void) {
  void *library = loaded("libcuda.so.1");
  if (library == NULL)
    return false;
  runtime.attribute = (ask_attribute *)symbol(library, "cuPointerGetAttribute");
  runtime.range = (ask_range *)symbol(library, "cuMemGetAddressRange_v2");
  runtime.pci = (ask_pci *)symbol(library, "cuDeviceGetPCIBusId");
  runtime.count = (ask_count *)symbol(library, "cuDeviceGetCount");
  runtime.device_memory = 2;
  return runtime.attribute != NULL;
}

/* ROCm 6 renumbered the memory types (unregistered 0, host 1, device 2); before, device was 1. */
static bool look_for_hip(void) {
  static const struct {
    const char *name;
    int device_memory;
  } names[] = {{"libamdhip64.so.7", 2}, {"libamdhip64.so.6", 2}, {"libamdhip64.so.5", 1}};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    void *library = loaded(names[i].name);
    if (library == NULL)
      continue;
    runtime.attribute = (ask_attribute *)symbol(library, "hipPointerGetAttribute");
    runtime.range = (ask_range *)symbol(library, "hipMemGetAddressRange");
    runtime.pci = (ask_pci *)symbol(library, "hipDeviceGetPCIBusId");
    runtime.count = (ask_count *)symbol(library, "hipGetDeviceCount");
    runtime.device_memory = names[i].device_memory;
    return runtime.attribute != NULL;
  }
  return false;
}

void tps__gpu_look(void) {
  struct tps_header *header = tps__process.header;
  int found = look_for_cuda() ? TPS_GPU_CUDA : look_for_hip() ? TPS_GPU_HIP : TPS_GPU_NONE;
  if (found == TPS_GPU_NONE) {
    if ((header->flags & TPS_FLAG_LEVEL_ZERO) == 0 && loaded("libze_loader.so.1") != NULL)
      __atomic_fetch_or(&header->flags, (uint32_t)TPS_FLAG_LEVEL_ZERO, __ATOMIC_RELAXED);
    return;
  }
  __atomic_fetch_or(&header->flags, (uint32_t)TPS_FLAG_GPU_RUNTIME, __ATOMIC_RELAXED);
  __atomic_store_n(&tps__process.gpu, found, __ATOMIC_RELEASE);
}

/* Writes ordinal and bus id of a new device. Under the lock. */
static void describe(struct tps_device *device, int ordinal) {
  int count = -1;
  char text[sizeof device->pci] = "";
  device->ordinal = ordinal;
  if (runtime.pci != NULL && runtime.pci(text, (int)sizeof text - 1, ordinal) == 0)
    memcpy(device->pci, text, sizeof text - 1);
  if (runtime.count != NULL && runtime.count(&count) == 0)
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

/* Asks the runtime. Managed memory follows what the driver says of the pointer. */
static int ask(uintptr_t pointer) {
  unsigned type = 0;
  int ordinal = -1;
  if (runtime.attribute(&type, ATTRIBUTE_MEMORY_TYPE, pointer) != 0)
    return TPS_NO_DEVICE; /* not the runtime's memory */
  if ((int)type != runtime.device_memory)
    return TPS_NO_DEVICE;
  if (runtime.attribute(&ordinal, ATTRIBUTE_DEVICE_ORDINAL, pointer) != 0)
    ordinal = -1;
  return number_of(ordinal);
}

static bool holds(const struct tps_range *range, uintptr_t pointer, uint64_t now) {
  return pointer >= range->low && pointer < range->high && now < range->expires;
}

int tps__gpu_device(const void *buffer) {
  struct tps_thread *thread = &tps__thread;
  uintptr_t pointer = (uintptr_t)buffer;
  uintptr_t number = pointer >> PAGE_SHIFT;
  struct tps_range *page = &thread->pages[(number ^ (number >> 5)) % TPS_PAGE_CACHE];
  uint64_t now = tps__process.timed ? thread->now : tps__ticks();
  if (holds(&thread->allocation, pointer, now))
    return thread->allocation.device;
  if (holds(page, pointer, now))
    return page->device;
  struct tps_range answer = {.low = number << PAGE_SHIFT,
                             .high = (number + 1) << PAGE_SHIFT,
                             .expires = now + TPS_ANSWER_TICKS,
                             .device = ask(pointer)};
  *page = answer;
  uintptr_t start = 0;
  size_t size = 0;
  if (answer.device != TPS_NO_DEVICE && runtime.range != NULL &&
      runtime.range(&start, &size, pointer) == 0 && pointer - start < size) {
    answer.low = start;
    answer.high = start + size;
    thread->allocation = answer;
  }
  return answer.device;
}
