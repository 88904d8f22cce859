/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the driver says of a pointer. */
#include <string.h>

#include "driver.h"

enum { NOT_VISIBLE = -2 }; /* the driver's ordinal of a device that the process does not see */

static int ordinal_or_none(unsigned physical) {
  const int ordinal = emu_ordinal_of(physical);
  return ordinal < 0 ? NOT_VISIBLE : ordinal;
}

static void put(void *data, const void *value, size_t size) { memcpy(data, value, size); }

static CUresult put_word(void *data, uint64_t value) {
  put(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

static CUresult put_int(void *data, int value) {
  put(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

static CUresult put_flag(void *data, bool value) {
  const unsigned char byte = value;
  put(data, &byte, sizeof byte);
  return CUDA_SUCCESS;
}

static CUresult answer(void *data, int which, uint64_t pointer, const struct emu_memory *memory) {
  const bool on_host = memory->kind == EMU_HOST;
  switch (which) {
  case CU_POINTER_ATTRIBUTE_CONTEXT:
    return put_word(data, (uint64_t)(uintptr_t)memory->context);
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    return put_int(data, on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    return put_word(data, pointer);
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    return memory->kind == EMU_DEVICE ? CUDA_ERROR_INVALID_VALUE : put_word(data, pointer);
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    return put_flag(data, memory->sync_memops || memory->kind == EMU_MANAGED);
  case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    return put_word(data, memory->buffer_id);
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    return put_flag(data, memory->kind == EMU_MANAGED);
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    return put_int(data, on_host && memory->context ? memory->context->device
                                                    : ordinal_or_none(memory->physical));
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    return put_flag(data, memory->kind == EMU_DEVICE && !memory->is_virtual && !memory->imported &&
                              !memory->pool);
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
  case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    return put_word(data, memory->base);
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
  case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    return put_word(data, memory->size);
  case CU_POINTER_ATTRIBUTE_MAPPED:
    return put_flag(data, true);
  case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    if (memory->pool)
      return put_word(data, (uint64_t)memory->pool->handle_types);
    return put_word(data, memory->is_virtual ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0);
  case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    return put_flag(data, false);
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    return put_int(data, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    return put_word(data, (uint64_t)(uintptr_t)memory->pool);
  case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    return put_word(data, memory->buffer_id);
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

EMU_EXPORT CUresult cuPointerGetAttribute(void *data, int which, CUdeviceptr pointer) {
  EMU_NEEDS_INIT();
  if (!data)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  const struct emu_memory *memory = emu_find(pointer);
  const CUresult result = memory ? answer(data, which, pointer, memory) : CUDA_ERROR_INVALID_VALUE;
  emu_unlock();
  return result;
}

/* Bytes of an attribute's value. */
static size_t size_of(int which) {
  switch (which) {
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    return sizeof(int);
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
  case CU_POINTER_ATTRIBUTE_MAPPED:
  case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    return 1;
  default:
    return sizeof(uint64_t);
  }
}

/* Of memory that the driver does not know, all answers are zero and the call succeeds. */
EMU_EXPORT CUresult cuPointerGetAttributes(unsigned count, int *which, void **data,
                                           CUdeviceptr pointer) {
  EMU_NEEDS_INIT();
  if (!which || !data)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  const struct emu_memory *memory = emu_find(pointer);
  for (unsigned i = 0; i < count; ++i)
    if (!memory || answer(data[i], which[i], pointer, memory) != CUDA_SUCCESS) {
      memset(data[i], 0, size_of(which[i]));
      if (which[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        (void)put_int(data[i], NOT_VISIBLE);
    }
  emu_unlock();
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuPointerSetAttribute(const void *value, int which, CUdeviceptr pointer) {
  EMU_NEEDS_INIT();
  if (!value || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
    return CUDA_ERROR_INVALID_VALUE;
  int flag = 0;
  memcpy(&flag, value, sizeof flag);
  emu_lock();
  struct emu_memory *memory = emu_find(pointer);
  const bool found = memory && memory->kind == EMU_DEVICE;
  if (found)
    memory->sync_memops = flag != 0;
  emu_unlock();
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
