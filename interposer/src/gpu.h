/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What gpu.c asks of the GPU runtimes: one struct per runtime, in gpu_cuda_hip.c and
 * gpu_level_zero.c. */
#ifndef TOPOSEAT_GPU_H
#define TOPOSEAT_GPU_H

#include <dlfcn.h>

#include "interposer.h"

/* A pointer into device memory: which device, and the allocation around it where it is known. */
struct tps_answer {
  int ordinal; /* -1: not known */
  uintptr_t low;
  uintptr_t high; /* exclusive; 0: the allocation is not known */
};

struct tps_runtime {
  enum tps_gpu kind;
  bool (*look)(void); /* is it loaded, and can it be asked? Never loads it */
  bool (*ask)(uintptr_t pointer, struct tps_answer *answer); /* false: not device memory */
  bool (*pci)(int ordinal, char *text, int room);
  int (*count)(void); /* visible devices; -1: not known */
};
extern const struct tps_runtime tps__cuda;
extern const struct tps_runtime tps__hip;
extern const struct tps_runtime tps__level_zero;

static inline tps_function *tps__symbol(void *library, const char *name) {
  union tps_address found = {.object = dlsym(library, name)};
  return found.function;
}

/* A handle of a library that the application has loaded and that has the symbol, or NULL. */
static inline void *tps__loaded(const char *prefix, const char *name) {
  const char *const prefixes[] = {prefix, NULL};
  return tps__library_with(prefixes, name);
}

/* Device memory was, or is about to be, freed: nobody's kept answers hold. */
static inline void tps__gpu_forget(void) {
  __atomic_fetch_add(&tps__process.gpu_generation, 1, __ATOMIC_ACQ_REL);
}

/* What a look for runtimes depends on has changed. */
static inline void tps__gpu_look_again(void) {
  __atomic_store_n(&tps__process.libraries_seen, 0, __ATOMIC_RELAXED);
}

#endif
