/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The most common accident of GPU programs: device memory handed to an MPI that was not built for
 * it, which then reads it like host memory and crashes. Where the MPI does not say whether it is
 * GPU-aware (gpu_aware.c), nothing is said here either.
 */
#include "interposer.h"

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
              tps__refusal_remedy());
    return;
  }
}
