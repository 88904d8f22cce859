/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Memory of one process in another: handles made and opened. */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

EMU_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *result, CUdeviceptr pointer) {
  EMU_NEEDS_INIT();
  if (!result)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  const struct emu_memory *memory = emu_find(pointer);
  const bool good = memory && memory->kind == EMU_DEVICE && !memory->imported &&
                    !memory->is_virtual && !memory->pool;
  struct emu_handle handle = {0};
  if (good)
    handle = emu_handle_of(memory, EMU_MEMORY_MAGIC);
  emu_unlock();
  if (!good)
    return CUDA_ERROR_INVALID_VALUE;
  memset(result, 0, sizeof *result);
  memcpy(result, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

static void take_time(int64_t nanoseconds) {
  struct timespec rest = {nanoseconds / 1000000000, nanoseconds % 1000000000};
  while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
    ;
}

/* A buffer that is open already. */
static struct emu_memory *opened(const struct emu_handle *handle) {
  for (unsigned i = 0; i < emu_allocations(); ++i) {
    struct emu_memory *each = emu_allocation(i);
    if (!each->imported || each->pool || each->owner != handle->process)
      continue;
    if (each->inode == handle->inode && each->owner_base == handle->base)
      return each;
  }
  return NULL;
}

static CUresult check(CUcontext context, const struct emu_handle *handle) {
  if (handle->magic != EMU_MEMORY_MAGIC || handle->physical >= emu_driver.machine->devices)
    return CUDA_ERROR_INVALID_VALUE;
  if (!context || handle->process == (int32_t)getpid())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (emu_is_hidden(emu_driver.machine,
                    handle->physical)) /* by a cgroup; a variable hides nothing */
    return CUDA_ERROR_INVALID_VALUE;
  if (context->physical != handle->physical &&
      !emu_way(emu_driver.machine, context->physical, handle->physical)->peer)
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  return CUDA_SUCCESS;
}

CUresult emu_open_memory(CUcontext context, const struct emu_handle *handle,
                         struct emu_memory **result) {
  const int file = emu_open_exported(handle);
  if (file < 0)
    return emu_owner_lives(handle) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  struct emu_memory memory = {.size = handle->size,
                              .mapped = handle->mapped,
                              .kind = EMU_DEVICE,
                              .physical = handle->physical,
                              .context = context,
                              .buffer_id = emu_new_buffer_id(),
                              .file = file,
                              .inode = handle->inode,
                              .imported = true,
                              .references = 1,
                              .owner = handle->process,
                              .owner_base = handle->base};
  if (!emu_map_twice(file, memory.mapped, &memory.base, &memory.alias)) {
    (void)close(file);
    return CUDA_ERROR_MAP_FAILED;
  }
  *result = emu_add(&memory);
  if (*result)
    return CUDA_SUCCESS;
  emu_unmap_twice(memory.base, memory.alias, memory.mapped);
  (void)close(file);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

EMU_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle given,
                                          unsigned flags) {
  EMU_NEEDS_INIT();
  if (!pointer || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
    return CUDA_ERROR_INVALID_VALUE;
  struct emu_handle handle;
  memcpy(&handle, &given, sizeof handle);
  bool is_new = false;
  emu_lock();
  CUcontext context = emu_current();
  CUresult result = check(context, &handle);
  if (result == CUDA_SUCCESS) {
    emu_follow(&handle);
    struct emu_memory *open_already = opened(&handle);
    if (open_already) {
      ++open_already->references;
      *pointer = open_already->base;
    } else {
      struct emu_memory *made = NULL;
      result = emu_open_memory(context, &handle, &made);
      is_new = result == CUDA_SUCCESS;
      if (is_new)
        *pointer = made->base;
    }
  }
  emu_unlock();
  if (is_new) /* what makes caches of handles worth while */
    take_time(emu_driver.machine->ipc_open_ns);
  return result;
}

EMU_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  EMU_NEEDS_INIT();
  emu_drain_all();
  emu_lock();
  struct emu_memory *memory = emu_find(pointer);
  const bool good = memory && memory->imported && !memory->pool && memory->base == pointer;
  if (good && --memory->references == 0)
    emu_remove(memory);
  emu_unlock();
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
