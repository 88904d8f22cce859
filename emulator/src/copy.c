/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The copy and fill calls: each resolves its pointers and queues one task. */
#include <string.h>

#include "driver.h"

struct ends {
  uint64_t to, to_pitch, from, from_pitch, width, rows;
};

static uint64_t extent(uint64_t pitch, const struct ends *ends) {
  return (ends->rows - 1) * pitch + ends->width;
}

static CUresult copy(CUstream stream, const struct ends *ends, bool wait) {
  EMU_NEEDS_INIT();
  if (!ends->width || !ends->rows)
    return CUDA_SUCCESS;
  if (ends->rows > 1 && (ends->to_pitch < ends->width || ends->from_pitch < ends->width))
    return CUDA_ERROR_INVALID_VALUE;
  struct emu_copy task = {.width = ends->width,
                          .rows = ends->rows,
                          .from_pitch = ends->from_pitch,
                          .to_pitch = ends->to_pitch};
  emu_lock();
  CUresult result = emu_current() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  if (result == CUDA_SUCCESS)
    result = emu_resolve(ends->from, extent(ends->from_pitch, ends), &task.from);
  if (result == CUDA_SUCCESS)
    result = emu_resolve(ends->to, extent(ends->to_pitch, ends), &task.to);
  emu_unlock();
  return result == CUDA_SUCCESS ? emu_queue_copy(stream, &task, wait) : result;
}

static CUresult line(CUstream stream, uint64_t to, uint64_t from, size_t bytes, bool wait) {
  const struct ends ends = {.to = to, .from = from, .width = bytes, .rows = 1};
  return copy(stream, &ends, wait);
}

static uint64_t address(const void *pointer) { return (uint64_t)(uintptr_t)pointer; }

EMU_EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return line(NULL, to, from, bytes, true);
}

EMU_EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return line(stream, to, from, bytes, false);
}

EMU_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  return line(NULL, to, address(from), bytes, true);
}

EMU_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                                         CUstream stream) {
  return line(stream, to, address(from), bytes, false);
}

EMU_EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  return line(NULL, address(to), from, bytes, true);
}

EMU_EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes,
                                         CUstream stream) {
  return line(stream, address(to), from, bytes, false);
}

EMU_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return line(NULL, to, from, bytes, true);
}

EMU_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                         CUstream stream) {
  return line(stream, to, from, bytes, false);
}

EMU_EXPORT CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                 CUcontext from_context, size_t bytes) {
  (void)to_context;
  (void)from_context;
  return line(NULL, to, from, bytes, true);
}

EMU_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                      CUcontext from_context, size_t bytes, CUstream stream) {
  (void)to_context;
  (void)from_context;
  return line(stream, to, from, bytes, false);
}

static CUresult rectangle(CUstream stream, const CUDA_MEMCPY2D *given, bool wait) {
  if (!given)
    return CUDA_ERROR_INVALID_VALUE;
  if (given->srcArray || given->dstArray)
    return CUDA_ERROR_NOT_SUPPORTED;
  const uint64_t from =
      given->srcMemoryType == CU_MEMORYTYPE_HOST ? address(given->srcHost) : given->srcDevice;
  const uint64_t to =
      given->dstMemoryType == CU_MEMORYTYPE_HOST ? address(given->dstHost) : given->dstDevice;
  const struct ends ends = {.to = to + given->dstY * given->dstPitch + given->dstXInBytes,
                            .from = from + given->srcY * given->srcPitch + given->srcXInBytes,
                            .to_pitch = given->dstPitch ? given->dstPitch : given->WidthInBytes,
                            .from_pitch = given->srcPitch ? given->srcPitch : given->WidthInBytes,
                            .width = given->WidthInBytes,
                            .rows = given->Height};
  return copy(stream, &ends, wait);
}

EMU_EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *given) {
  return rectangle(NULL, given, true);
}

EMU_EXPORT CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *given) {
  return rectangle(NULL, given, true);
}

EMU_EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *given, CUstream stream) {
  return rectangle(stream, given, false);
}

/* ---- fills */

static CUresult fill(CUstream stream, CUdeviceptr to, uint32_t value, unsigned bytes, size_t count,
                     bool wait) {
  EMU_NEEDS_INIT();
  if (!count)
    return CUDA_SUCCESS;
  if (to % bytes)
    return CUDA_ERROR_INVALID_VALUE;
  return emu_queue_fill(stream, to, count * bytes, 1, count * bytes, value, bytes, wait);
}

EMU_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return fill(NULL, to, value, 1, count, true);
}

EMU_EXPORT CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  return fill(NULL, to, value, 2, count, true);
}

EMU_EXPORT CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) {
  return fill(NULL, to, value, 4, count, true);
}

EMU_EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                                    CUstream stream) {
  return fill(stream, to, value, 1, count, false);
}

EMU_EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count,
                                     CUstream stream) {
  return fill(stream, to, value, 4, count, false);
}
