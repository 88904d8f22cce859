/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Memory, what a pointer is, and copies. */
#include <string.h>

#include "runtime.h"

enum { INVALID_DEVICE = -2 };

/* Nothing is a pointer without memory, which can be freed. */
CUresult rt_allocate(void **pointer, size_t bytes) {
  if (!pointer)
    return CUDA_ERROR_INVALID_VALUE;
  *pointer = NULL;
  return bytes ? cuMemAlloc_v2((CUdeviceptr *)pointer, bytes) : CUDA_SUCCESS;
}

CUresult rt_allocate_host(void **pointer, size_t bytes, unsigned flags) {
  if (!pointer)
    return CUDA_ERROR_INVALID_VALUE;
  *pointer = NULL;
  return bytes ? cuMemHostAlloc(pointer, bytes, flags) : CUDA_SUCCESS;
}

CUresult rt_pointer(struct cudaPointerAttributes *attributes, const void *pointer) {
  int type = 0;
  int device = INVALID_DEVICE;
  unsigned char managed = 0;
  int which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                 CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void *answers[] = {&type, &device, &managed};
  if (!attributes)
    return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = cuPointerGetAttributes(3, which, answers, RT_ADDRESS(pointer));
  if (result != CUDA_SUCCESS)
    return result;
  memset(attributes, 0, sizeof *attributes);
  attributes->type = managed ? cudaMemoryTypeManaged : type; /* 0: the driver does not know it */
  attributes->device = device;
  void *address = (void *)(uintptr_t)pointer;
  attributes->devicePointer = type ? address : NULL;
  attributes->hostPointer = attributes->type == cudaMemoryTypeDevice ? NULL : address;
  return CUDA_SUCCESS;
}

/* ---- copies: every address has one meaning, the direction adds nothing */

static bool is_direction(int kind) {
  return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}

CUresult rt_copy(void *to, const void *from, size_t bytes, int kind, CUstream stream, bool wait) {
  if (!is_direction(kind))
    return cudaErrorInvalidMemcpyDirection;
  return wait ? cuMemcpy(RT_ADDRESS(to), RT_ADDRESS(from), bytes)
              : cuMemcpyAsync(RT_ADDRESS(to), RT_ADDRESS(from), bytes, stream);
}

CUresult rt_copy_peer(const struct rt_peers *peers, size_t bytes, CUstream stream, bool wait) {
  CUcontext to = NULL;
  CUcontext from = NULL;
  CUresult result = rt_start(peers->to_device, &to);
  if (result == CUDA_SUCCESS)
    result = rt_start(peers->from_device, &from);
  if (result != CUDA_SUCCESS)
    return result;
  const CUdeviceptr target = RT_ADDRESS(peers->to);
  const CUdeviceptr source = RT_ADDRESS(peers->from);
  return wait ? cuMemcpyPeer(target, to, source, from, bytes)
              : cuMemcpyPeerAsync(target, to, source, from, bytes, stream);
}

CUresult rt_copy_rows(const struct rt_rows *rows, int kind, CUstream stream, bool wait) {
  if (!is_direction(kind))
    return cudaErrorInvalidMemcpyDirection;
  if (rows->width > rows->to_pitch || rows->width > rows->from_pitch)
    return cudaErrorInvalidPitchValue;
  const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                              .srcDevice = RT_ADDRESS(rows->from),
                              .srcPitch = rows->from_pitch,
                              .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                              .dstDevice = RT_ADDRESS(rows->to),
                              .dstPitch = rows->to_pitch,
                              .WidthInBytes = rows->width,
                              .Height = rows->height};
  return wait ? cuMemcpy2D_v2(&copy) : cuMemcpy2DAsync_v2(&copy, stream);
}

CUresult rt_fill_rows(const struct rt_rows *rows, int value, CUstream stream, bool wait) {
  CUresult result = rows->width > rows->to_pitch ? cudaErrorInvalidPitchValue : CUDA_SUCCESS;
  for (size_t row = 0; result == CUDA_SUCCESS && row < rows->height; ++row)
    result = cuMemsetD8Async(RT_ADDRESS(rows->to) + row * rows->to_pitch, (unsigned char)value,
                             rows->width, stream);
  return wait && result == CUDA_SUCCESS ? cuStreamSynchronize(stream) : result;
}
