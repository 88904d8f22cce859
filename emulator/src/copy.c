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

/* The driver's description of a two-dimensional copy; memory type 4 is "any, look it up". */
struct copy_2d {
  size_t from_column, from_row;
  int from_type;
  const void *from_host;
  CUdeviceptr from_device;
  void *from_array;
  size_t from_pitch;
  size_t to_column, to_row;
  int to_type;
  void *to_host;
  CUdeviceptr to_device;
  void *to_array;
  size_t to_pitch;
  size_t width, height;
};

static CUresult rectangle(CUstream stream, const void *description, bool wait) {
  struct copy_2d given;
  if (!description)
    return CUDA_ERROR_INVALID_VALUE;
  memcpy(&given, description, sizeof given);
  if (given.from_array || given.to_array)
    return CUDA_ERROR_NOT_SUPPORTED;
  const uint64_t from =
      given.from_type == CU_MEMORYTYPE_HOST ? address(given.from_host) : given.from_device;
  const uint64_t to =
      given.to_type == CU_MEMORYTYPE_HOST ? address(given.to_host) : given.to_device;
  const struct ends ends = {.to = to + given.to_row * given.to_pitch + given.to_column,
                            .from = from + given.from_row * given.from_pitch + given.from_column,
                            .to_pitch = given.to_pitch ? given.to_pitch : given.width,
                            .from_pitch = given.from_pitch ? given.from_pitch : given.width,
                            .width = given.width,
                            .rows = given.height};
  return copy(stream, &ends, wait);
}

EMU_EXPORT CUresult cuMemcpy2D_v2(const void *description) {
  return rectangle(NULL, description, true);
}

EMU_EXPORT CUresult cuMemcpy2DUnaligned_v2(const void *description) {
  return rectangle(NULL, description, true);
}

EMU_EXPORT CUresult cuMemcpy2DAsync_v2(const void *description, CUstream stream) {
  return rectangle(stream, description, false);
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
