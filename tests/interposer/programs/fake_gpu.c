/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A stand-in for a GPU runtime: libcuda.so.1, libamdhip64.so.6 or libze_loader.so.1, as
 * FAKE_CUDA, FAKE_HIP or FAKE_ZE says. Its "device memory" is whatever the program declares. It
 * answers the questions that the interposer asks, counts them, and forgets what is freed.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define ALLOCATIONS 64
#define DEVICES 4

struct allocation {
  uintptr_t start;
  size_t size; /* 0: free */
  int device;
  char kind; /* d device, m managed, h registered host memory */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct allocation allocations[ALLOCATIONS];
static int questions;

/* Under the mutex. */
static struct allocation *find(uintptr_t pointer) {
  for (int i = 0; i < ALLOCATIONS; ++i)
    if (pointer - allocations[i].start < allocations[i].size)
      return &allocations[i];
  return NULL;
}

int fake_gpu_declare(void *start, size_t size, int device, char kind) {
  int done = -1;
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < ALLOCATIONS && done != 0; ++i) {
    if (allocations[i].size != 0)
      continue;
    allocations[i] = (struct allocation){(uintptr_t)start, size, device, kind};
    done = 0;
  }
  pthread_mutex_unlock(&mutex);
  return done;
}

int fake_gpu_questions(void) {
  pthread_mutex_lock(&mutex);
  int answer = questions;
  pthread_mutex_unlock(&mutex);
  return answer;
}

/* A copy of the allocation around the pointer; its size is 0 if there is none. */
static struct allocation look(uintptr_t pointer) {
  struct allocation found = {0};
  pthread_mutex_lock(&mutex);
  const struct allocation *around = find(pointer);
  if (around != NULL)
    found = *around;
  questions += 1;
  pthread_mutex_unlock(&mutex);
  return found;
}

static int forget(uintptr_t pointer) {
  pthread_mutex_lock(&mutex);
  struct allocation *around = find(pointer);
  if (around != NULL)
    around->size = 0;
  pthread_mutex_unlock(&mutex);
  return around == NULL;
}

#if defined(FAKE_CUDA) || defined(FAKE_HIP)
#ifdef FAKE_CUDA
#define NAME(cuda, hip) cuda
#else
#define NAME(cuda, hip) hip
#endif

int NAME(cuPointerGetAttribute, hipPointerGetAttribute)(void *answer, int attribute,
                                                        uintptr_t pointer) {
  struct allocation found = look(pointer);
  if (found.size == 0)
    return 1;         /* invalid value */
  if (attribute == 2) /* memory type; of managed memory the host's, as its pages may be there */
    *(unsigned *)answer = found.kind == 'd' ? 2u : 1u;
  else if (attribute == 8)
    *(unsigned *)answer = found.kind == 'm';
  else if (attribute == 9)
    *(int *)answer = found.device;
  else
    return 1;
  return 0;
}

int NAME(cuMemGetAddressRange_v2, hipMemGetAddressRange)(uintptr_t *start, size_t *size,
                                                         uintptr_t pointer) {
  struct allocation found = look(pointer);
  *start = found.start;
  *size = found.size;
  return found.size == 0;
}

int NAME(cuDeviceGetPCIBusId, hipDeviceGetPCIBusId)(char *text, int length, int device) {
  snprintf(text, (size_t)length, "0000:%02X:00.0", 0x40 + device);
  return 0;
}

int NAME(cuDeviceGetCount, hipGetDeviceCount)(int *count) {
  *count = DEVICES;
  return 0;
}

#ifdef FAKE_HIP
int hipRuntimeGetVersion(int *version) {
  *version = 60342131;
  return 0;
}
#endif

int NAME(cuMemFree_v2, hipFree)(uintptr_t pointer) { return forget(pointer); }
#endif

#ifdef FAKE_ZE
struct properties {
  int struct_type;
  void *next;
  int type;
  uint64_t id, page_size;
};
struct pci {
  int struct_type;
  void *next;
  uint32_t domain, bus, device, function;
};
static char devices[DEVICES];
static char driver, context;

int zeContextCreate(void *of, const void *description, void **made) {
  (void)description;
  *made = &context;
  return of != &driver;
}
int zeContextDestroy(void *gone) { return gone != &context; }
int zeDriverGet(uint32_t *count, void **drivers) {
  if (drivers != NULL)
    *drivers = &driver;
  *count = 1;
  return 0;
}
int zeDeviceGet(void *of, uint32_t *count, void **list) {
  if (*count == 0 || *count > DEVICES)
    *count = DEVICES;
  for (uint32_t i = 0; list != NULL && i < *count; ++i)
    list[i] = &devices[i];
  return of != &driver;
}
int zeDevicePciGetPropertiesExt(void *device, struct pci *answer) {
  answer->domain = 0;
  answer->bus = 0x40u + (uint32_t)((char *)device - devices);
  answer->device = answer->function = 0;
  return answer->struct_type != 0x10008;
}
int zeMemGetAllocProperties(void *of, const void *pointer, struct properties *answer,
                            void **device) {
  struct allocation found = look((uintptr_t)pointer);
  if (of != &context || answer->struct_type != 0x17)
    return 0x78000004; /* invalid argument */
  answer->type = found.size == 0 ? 0 : found.kind == 'd' ? 2 : found.kind == 'm' ? 3 : 1;
  *device = answer->type >= 2 ? &devices[found.device] : NULL;
  return 0;
}
int zeMemGetAddressRange(void *of, const void *pointer, void **base, size_t *size) {
  struct allocation found = look((uintptr_t)pointer);
  *base = (void *)found.start;
  *size = found.size;
  return of != &context;
}
int zeMemFree(void *of, void *pointer) { return of != &context || forget((uintptr_t)pointer); }
#endif
