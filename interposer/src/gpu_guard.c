/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The most common accident of GPU programs: device memory handed to an MPI that was not built for
 * it, which then reads it like host memory and crashes. There is no warning where the MPI does not
 * say whether it is GPU-aware (gpu_aware.c), nor for messages of a transport that handles device
 * memory itself.
 */
#include <string.h>

#include "counters.h"

enum answer { NOT_ASKED, NO, YES };

/* Messages between two ranks, but those that the MPI itself copies first. */
static bool is_message(const char *call) {
  static const char *const words[] = {"Send", "send", "Recv", "recv"};
  if (strstr(call, "bsend") != NULL || strstr(call, "Bsend") != NULL ||
      strstr(call, "replace") != NULL)
    return false;
  for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
    if (strstr(call, words[i]) != NULL)
      return true;
  return false;
}

/* Whether this call's memory goes to a transport that handles device memory: asked once, after
 * MPI_Init. */
static bool is_taken(const char *call) {
  static int answer = NOT_ASKED;
  if (!is_message(call))
    return false;
  int known = __atomic_load_n(&answer, __ATOMIC_RELAXED);
  if (known == NOT_ASKED) {
    known = tps__messages_take((enum tps_gpu)tps__gpu()) ? YES : NO;
    __atomic_store_n(&answer, known, __ATOMIC_RELAXED);
  }
  return known == YES;
}

void tps__guard_buffers(const char *call, const void *const *buffers, int count) {
  static bool said;
  if (is_taken(call))
    return;
  for (int i = 0; i < count; ++i) {
    int device = buffers[i] != NULL ? tps__gpu_device(buffers[i]) : TPS_NO_DEVICE;
    if (device == TPS_NO_DEVICE)
      continue;
    __atomic_store_n(&tps__process.guarded, false, __ATOMIC_RELAXED);
    __atomic_fetch_or(&tps__process.header->flags, (uint32_t)TPS_FLAG_NOT_GPU_AWARE,
                      __ATOMIC_RELAXED);
    tps__warn(&said,
              "%s gets memory of GPU %.31s, but this MPI (%.60s) reports that it is not GPU-aware; "
              "it may crash now. Remedy: %s",
              call, tps__main_segment()->devices[device].pci, tps__process.header->library,
              tps__refusal_remedy());
    return;
  }
}
