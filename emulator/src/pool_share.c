/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Pools and their memory in other processes: a file names the pool, a handle the memory. */
#include <string.h>
#include <unistd.h>

#include "driver.h"

/* What the file of a pool that can be shared says. */
struct pool_name {
  uint32_t magic;
  uint32_t physical;
  uint64_t id;
  int32_t handle_types;
};

/* The file that names a pool: made when it is first shared. */
static int pool_file(CUmemoryPool pool) {
  if (pool->file >= 0)
    return pool->file;
  const int file = emu_new_file("toposeat-pool", 0);
  if (file < 0)
    return -1;
  pool->id = emu_inode(file);
  const struct pool_name name = {.magic = EMU_POOL_MAGIC,
                                 .physical = pool->physical,
                                 .id = pool->id,
                                 .handle_types = pool->handle_types};
  if (write(file, &name, sizeof name) != (ssize_t)sizeof name) {
    (void)close(file);
    return -1;
  }
  pool->file = file;
  return file;
}

EMU_EXPORT CUresult cuMemPoolExportToShareableHandle(void *shareable, CUmemoryPool pool, int type,
                                                     unsigned long long flags) {
  EMU_NEEDS_INIT();
  if (!shareable || flags)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  const bool allowed = emu_pool_lives(pool) && !pool->imported &&
                       type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
                       (pool->handle_types & type);
  const int named = allowed ? pool_file(pool) : -1;
  const int file = named >= 0 ? dup(named) : -1;
  emu_unlock();
  if (file < 0)
    return allowed ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_ERROR_INVALID_VALUE;
  memcpy(shareable, &file, sizeof file);
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *shareable,
                                                       int type, unsigned long long flags) {
  EMU_NEEDS_INIT();
  struct pool_name name = {0};
  const int given = (int)(intptr_t)shareable;
  if (!pool || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      pread(given, &name, sizeof name, 0) != (ssize_t)sizeof name || name.magic != EMU_POOL_MAGIC ||
      name.physical >= emu_driver.machine->devices || emu_inode(given) != name.id)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  *pool = emu_new_pool(name.physical, name.handle_types);
  if (*pool) {
    (*pool)->imported = true;
    (*pool)->id = name.id;
  }
  emu_unlock();
  return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EMU_EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr pointer) {
  EMU_NEEDS_INIT();
  if (!data)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  const struct emu_memory *memory = emu_find(pointer);
  const bool good = memory && memory->pool && !memory->imported && memory->pool->id;
  struct emu_handle handle = {0};
  if (good)
    handle = emu_handle_of(memory, EMU_POOL_MAGIC);
  emu_unlock();
  if (!good)
    return CUDA_ERROR_INVALID_VALUE;
  memset(data, 0, sizeof *data);
  memcpy(data, &handle, sizeof handle);
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *pointer, CUmemoryPool pool,
                                           CUmemPoolPtrExportData *data) {
  EMU_NEEDS_INIT();
  if (!pointer || !data)
    return CUDA_ERROR_INVALID_VALUE;
  struct emu_handle handle;
  memcpy(&handle, data, sizeof handle);
  struct emu_memory *made = NULL;
  emu_lock();
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  if (emu_pool_lives(pool) && pool->imported && handle.magic == EMU_POOL_MAGIC &&
      handle.pool == pool->id && handle.physical == pool->physical)
    result = emu_open_memory(emu_current(), &handle, &made);
  if (made) {
    made->pool = pool;
    emu_pool_count(pool, (int64_t)made->size);
    *pointer = made->base;
  }
  emu_unlock();
  return result;
}
