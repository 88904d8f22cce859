/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The most common accident of GPU programs: device memory handed to an MPI that was not built for
 * it, which then reads it like host memory and crashes. Whether the MPI is GPU-aware is asked of
 * the MPI itself; if it does not say, nothing is said here either.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "count.h"

enum awareness { UNKNOWN, AWARE, NOT_AWARE };

typedef int ask_plain(void);
typedef int ask_kind(int kind, int *answer);

static bool is_off(const char *text) {
  static const char *const words[] = {"0", "no", "off", "false", "disable"};
  for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
    if (strcasecmp(text, words[i]) == 0)
      return true;
  return false;
}

/* MPIs that are built with support and switched on by a variable, off by default. */
static enum awareness by_variable(const char *name) {
  const char *text = getenv(name);
  return text == NULL || *text == '\0' || is_off(text) ? NOT_AWARE : AWARE;
}

static enum awareness ask_library(int kind) {
  static const char *const plain[] = {"MPIX_Query_cuda_support", "MPIX_Query_rocm_support",
                                      "MPIX_Query_ze_support"};
  static const int of_mpich[] = {0, 2, 1}; /* MPIX_GPU_SUPPORT_CUDA, HIP, ZE */
  int answer = 0;
  ask_kind *by_kind = (ask_kind *)tps__find("MPIX_GPU_query_support");
  if (by_kind != NULL && by_kind(of_mpich[kind], &answer) == 0)
    return answer ? AWARE : NOT_AWARE;
  ask_plain *ask = (ask_plain *)tps__find(plain[kind]);
  return ask == NULL ? UNKNOWN : ask() ? AWARE : NOT_AWARE;
}

static enum awareness awareness_of(enum tps_gpu gpu) {
  const char *version = tps__process.header->library;
  const char *switched = getenv("MPIR_CVAR_ENABLE_GPU");
  if (strstr(version, "Intel(R) MPI") != NULL)
    return by_variable("I_MPI_OFFLOAD");
  if (strstr(version, "CRAY MPICH") != NULL)
    return by_variable("MPICH_GPU_SUPPORT_ENABLED");
  if (strstr(version, "MPICH") != NULL && switched != NULL && is_off(switched))
    return NOT_AWARE;
  return ask_library((int)gpu - TPS_GPU_CUDA);
}

static const char *remedy(void) {
  const char *version = tps__process.header->library;
  if (strstr(version, "Intel(R) MPI") != NULL)
    return "set I_MPI_OFFLOAD=1";
  if (strstr(version, "CRAY MPICH") != NULL)
    return "set MPICH_GPU_SUPPORT_ENABLED=1 and load the GPU's module before linking";
  if (strstr(version, "MPICH") != NULL && getenv("MPIR_CVAR_ENABLE_GPU") != NULL)
    return "unset MPIR_CVAR_ENABLE_GPU, or use an MPICH built for this GPU";
  return "use an MPI built for this GPU, or copy to host memory before the call";
}

void tps__guard_start(enum tps_gpu gpu) {
  if (awareness_of(gpu) == NOT_AWARE)
    __atomic_store_n(&tps__process.guarded, true, __ATOMIC_RELEASE);
}

void tps__guard_buffers(const char *call, const void *const *buffers, int count) {
  static bool said;
  for (int i = 0; i < count; ++i) {
    int device = buffers[i] != NULL ? tps__gpu_device(buffers[i]) : TPS_NO_DEVICE;
    if (device == TPS_NO_DEVICE)
      continue;
    __atomic_store_n(&tps__process.guarded, false, __ATOMIC_RELAXED);
    __atomic_fetch_or(&tps__process.header->flags, (uint32_t)TPS_FLAG_NOT_GPU_AWARE,
                      __ATOMIC_RELAXED);
    tps__warn(&said,
              "%s gets memory of GPU %.31s, but this MPI (%.60s) says that it is not GPU-aware; it "
              "may crash now. Remedy: %s",
              call, tps__main_segment()->devices[device].pci, tps__process.header->library,
              remedy());
    return;
  }
}
