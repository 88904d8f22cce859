/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Allocating and freeing device, pinned host and managed memory. */
#include <sys/mman.h>

#include "driver.h"
#include "state.h"

static CUresult allocate(CUdeviceptr *pointer, size_t bytes, bool managed) {
  EMU_NEEDS_INIT();
  if (!pointer || !bytes || bytes > (uint64_t)1 << 46)
    return bytes && pointer ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  CUcontext context = emu_current();
  struct emu_memory *made = NULL;
  CUresult result = CUDA_ERROR_INVALID_CONTEXT;
  if (context)
    result = emu_allocate_device(context, context->physical, bytes, managed, &made);
  if (made)
    *pointer = made->base;
  emu_unlock();
  return result;
}

EMU_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
  return allocate(pointer, bytes, false);
}

EMU_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned flags) {
  (void)flags;
  return allocate(pointer, bytes, true);
}

EMU_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width,
                                       size_t height, unsigned element) {
  if (!pitch || !width || !height || width > (uint64_t)1 << 40 || height > (uint64_t)1 << 40 ||
      (element != 4 && element != 8 && element != 16))
    return CUDA_ERROR_INVALID_VALUE;
  *pitch = (width + 511) / 512 * 512;
  return *pitch > ((uint64_t)1 << 46) / height ? CUDA_ERROR_OUT_OF_MEMORY
                                               : allocate(pointer, *pitch * height, false);
}

/* Freeing waits for the work that may use the memory, as the real driver does. */
EMU_EXPORT CUresult cuMemFree_v2(CUdeviceptr pointer) {
  EMU_NEEDS_INIT();
  if (!pointer)
    return CUDA_SUCCESS;
  emu_drain_all();
  emu_lock();
  struct emu_memory *memory = emu_find(pointer);
  const bool ours = memory && memory->base == pointer && memory->kind != EMU_HOST &&
                    (!memory->imported || memory->pool) && !memory->is_virtual && !memory->freeing;
  if (ours)
    emu_release(memory);
  emu_unlock();
  return ours ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EMU_EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
  EMU_NEEDS_INIT();
  if (!available || !total)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  CUcontext context = emu_current();
  emu_unlock();
  if (!context)
    return CUDA_ERROR_INVALID_CONTEXT;
  *total = emu_driver.machine->device[context->physical].memory_bytes;
  const uint64_t used = emu_memory_used(context->physical);
  *available = used < *total ? *total - used : 0;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer) {
  EMU_NEEDS_INIT();
  emu_lock();
  const struct emu_memory *memory = emu_find(pointer);
  const bool found = memory && memory->kind != EMU_HOST;
  if (found && base)
    *base = memory->base;
  if (found && size)
    *size = memory->size;
  emu_unlock();
  return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* ---- host memory */

static CUresult allocate_host(void **pointer, size_t bytes) {
  EMU_NEEDS_INIT();
  if (!pointer || !bytes)
    return CUDA_ERROR_INVALID_VALUE;
  struct emu_memory memory = {.size = bytes,
                              .mapped = emu_whole_pages(bytes),
                              .kind = EMU_HOST,
                              .buffer_id = emu_new_buffer_id(),
                              .file = -1,
                              .references = 1};
  void *room =
      mmap(NULL, memory.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  memory.alias = room;
  memory.base = (uint64_t)(uintptr_t)room;
  emu_lock();
  memory.context = emu_current();
  const bool added = memory.context && emu_add(&memory);
  emu_unlock();
  if (!added) {
    (void)munmap(room, memory.mapped);
    return memory.context ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_CONTEXT;
  }
  *pointer = room;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuMemAllocHost_v2(void **pointer, size_t bytes) {
  return allocate_host(pointer, bytes);
}

EMU_EXPORT CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  (void)flags;
  return allocate_host(pointer, bytes);
}

EMU_EXPORT CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) {
  (void)flags;
  EMU_NEEDS_INIT();
  if (!pointer || !bytes)
    return CUDA_ERROR_INVALID_VALUE;
  struct emu_memory memory = {.base = (uint64_t)(uintptr_t)pointer,
                              .size = bytes,
                              .mapped = bytes,
                              .alias = pointer,
                              .kind = EMU_HOST,
                              .registered = true,
                              .buffer_id = emu_new_buffer_id(),
                              .file = -1,
                              .references = 1};
  emu_lock();
  memory.context = emu_current();
  CUresult result = CUDA_SUCCESS;
  if (!memory.context)
    result = CUDA_ERROR_INVALID_CONTEXT;
  else if (emu_find(memory.base) || emu_find(memory.base + bytes - 1))
    result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  else if (!emu_add(&memory))
    result = CUDA_ERROR_OUT_OF_MEMORY;
  emu_unlock();
  return result;
}

static CUresult release_host(uint64_t pointer, bool registered) {
  EMU_NEEDS_INIT();
  emu_drain_all();
  emu_lock();
  struct emu_memory *memory = emu_find(pointer);
  const bool ours = memory && memory->base == pointer && memory->kind == EMU_HOST &&
                    memory->registered == registered;
  const bool inside = memory && memory->registered;
  if (ours)
    emu_remove(memory);
  emu_unlock();
  if (ours)
    return CUDA_SUCCESS;
  return registered && !inside ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : CUDA_ERROR_INVALID_VALUE;
}

EMU_EXPORT CUresult cuMemHostUnregister(void *pointer) {
  return release_host((uint64_t)(uintptr_t)pointer, true);
}

EMU_EXPORT CUresult cuMemFreeHost(void *pointer) {
  return release_host((uint64_t)(uintptr_t)pointer, false);
}

EMU_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned flags) {
  EMU_NEEDS_INIT();
  if (!device || flags)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  const struct emu_memory *memory = emu_find((uint64_t)(uintptr_t)host);
  const bool found = memory && memory->kind == EMU_HOST;
  emu_unlock();
  if (found)
    *device = (uint64_t)(uintptr_t)host;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
