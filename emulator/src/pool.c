/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Memory pools, and memory that is allocated and freed in the order of a stream. Freed memory is
   given back at once: a pool holds nothing in reserve, whatever its release threshold. */
#include <string.h>

#include "queue.h"

static CUmemoryPool standing[EMU_MAX_DEVICES], current[EMU_MAX_DEVICES]; /* by physical device */

/* The pool that every device has. */
static CUmemoryPool standing_pool(unsigned physical) {
  if (!standing[physical]) {
    standing[physical] = emu_new_pool(physical, CU_MEM_HANDLE_TYPE_NONE);
    if (standing[physical])
      standing[physical]->standing = true;
  }
  return standing[physical];
}

static CUmemoryPool current_pool(unsigned physical) {
  return current[physical] ? current[physical] : standing_pool(physical);
}

/* ---- pools of devices */

static CUresult pool_of(CUmemoryPool *pool, CUdevice device, CUmemoryPool (*which)(unsigned)) {
  EMU_NEEDS_INIT();
  if (!pool)
    return CUDA_ERROR_INVALID_VALUE;
  if (!emu_is_ordinal(device))
    return CUDA_ERROR_INVALID_DEVICE;
  emu_lock();
  *pool = which(emu_driver.visible.physical[device]);
  emu_unlock();
  return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EMU_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
  return pool_of(pool, device, standing_pool);
}

EMU_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) {
  return pool_of(pool, device, current_pool);
}

EMU_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  EMU_NEEDS_INIT();
  if (!emu_is_ordinal(device))
    return CUDA_ERROR_INVALID_DEVICE;
  const unsigned physical = emu_driver.visible.physical[device];
  emu_lock();
  const bool good = emu_pool_lives(pool) && !pool->imported && pool->physical == physical;
  if (good)
    current[physical] = pool;
  emu_unlock();
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- making pools */

EMU_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
  EMU_NEEDS_INIT();
  if (!pool || !properties || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (!emu_is_ordinal(properties->location.id))
    return CUDA_ERROR_INVALID_DEVICE;
  if (properties->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  *pool =
      emu_new_pool(emu_driver.visible.physical[properties->location.id], properties->handleTypes);
  emu_unlock();
  return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* What is left of a pool that ends is the standing pool's. */
static void hand_over(struct emu_memory *memory) {
  memory->pool = standing_pool(memory->physical);
  if (memory->pool)
    emu_pool_count(memory->pool, (int64_t)memory->size);
}

EMU_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  EMU_NEEDS_INIT();
  emu_lock();
  const bool good = emu_pool_lives(pool) && !pool->standing;
  if (good) {
    if (current[pool->physical] == pool)
      current[pool->physical] = NULL;
    for (unsigned i = 0; i < emu_allocations(); ++i)
      if (emu_allocation(i)->pool == pool)
        hand_over(emu_allocation(i));
    emu_delete_pool(pool);
  }
  emu_unlock();
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EMU_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes) {
  (void)bytes;
  EMU_NEEDS_INIT();
  emu_lock();
  const bool lives = emu_pool_lives(pool);
  emu_unlock();
  return lives ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- attributes */

static CUresult get_attribute(CUmemoryPool pool, int which, void *value) {
  uint64_t word = 0;
  switch (which) {
  case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
    memcpy(value, &pool->reuse[which - 1], sizeof(int));
    return CUDA_SUCCESS;
  case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
    word = pool->threshold;
    break;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
  case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
    word = pool->used;
    break;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
  case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    word = pool->most_used;
    break;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  memcpy(value, &word, sizeof word);
  return CUDA_SUCCESS;
}

static CUresult set_attribute(CUmemoryPool pool, int which, void *value) {
  uint64_t word = 0;
  if (which >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
      which <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) {
    memcpy(&pool->reuse[which - 1], value, sizeof(int));
    return CUDA_SUCCESS;
  }
  memcpy(&word, value, sizeof word);
  if (which == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    pool->threshold = word;
    return CUDA_SUCCESS;
  }
  const bool is_mark =
      which == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH || which == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
  if (!is_mark || word != 0) /* high water marks can be set to zero only */
    return CUDA_ERROR_INVALID_VALUE;
  pool->most_used = pool->used;
  return CUDA_SUCCESS;
}

static CUresult attribute(CUmemoryPool pool, int which, void *value,
                          CUresult (*move)(CUmemoryPool, int, void *)) {
  EMU_NEEDS_INIT();
  if (!value)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  const CUresult result =
      emu_pool_lives(pool) ? move(pool, which, value) : CUDA_ERROR_INVALID_VALUE;
  emu_unlock();
  return result;
}

EMU_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int which, void *value) {
  return attribute(pool, which, value, get_attribute);
}

EMU_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int which, void *value) {
  return attribute(pool, which, value, set_attribute);
}

/* ---- access */

static CUresult check_access(CUmemoryPool pool, const CUmemAccessDesc *access) {
  if (access->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (!emu_is_ordinal(access->location.id))
    return CUDA_ERROR_INVALID_DEVICE;
  const unsigned physical = emu_driver.visible.physical[access->location.id];
  if (physical == pool->physical) /* its own device always reaches it */
    return access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? CUDA_SUCCESS
                                                               : CUDA_ERROR_INVALID_VALUE;
  return emu_way(emu_driver.machine, physical, pool->physical)->peer ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_INVALID_DEVICE;
}

EMU_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access,
                                       size_t count) {
  EMU_NEEDS_INIT();
  if (!access && count)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  CUresult result = emu_pool_lives(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; result == CUDA_SUCCESS && i < count; ++i)
    result = check_access(pool, &access[i]);
  for (size_t i = 0; result == CUDA_SUCCESS && i < count; ++i)
    pool->access[emu_driver.visible.physical[access[i].location.id]] = (uint8_t)access[i].flags;
  emu_unlock();
  return result;
}

EMU_EXPORT CUresult cuMemPoolGetAccess(int *flags, CUmemoryPool pool, CUmemLocation *location) {
  EMU_NEEDS_INIT();
  if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (!emu_is_ordinal(location->id))
    return CUDA_ERROR_INVALID_DEVICE;
  emu_lock();
  const bool lives = emu_pool_lives(pool);
  if (lives)
    *flags = pool->access[emu_driver.visible.physical[location->id]];
  emu_unlock();
  return lives ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- memory */

/* The memory is there at once: what uses it before the stream comes to this point is undefined. */
static CUresult allocate(CUdeviceptr *pointer, size_t bytes, CUmemoryPool given, CUstream named) {
  EMU_NEEDS_INIT();
  if (!pointer)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  CUcontext context = emu_current();
  const CUstream stream = context ? emu_resolve_stream(named) : NULL;
  CUmemoryPool pool = given;
  CUresult result = context ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_CONTEXT;
  if (stream && !given)
    pool = current_pool(stream->context->physical);
  if (stream)
    result = emu_pool_lives(pool) && !pool->imported ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  struct emu_memory *made = NULL;
  if (result == CUDA_SUCCESS && bytes) /* no bytes: no memory, and no error */
    result = bytes > (uint64_t)1 << 46
                 ? CUDA_ERROR_OUT_OF_MEMORY
                 : emu_allocate_device(stream->context, pool->physical, bytes, false, &made);
  if (made) {
    made->pool = pool;
    emu_pool_count(pool, (int64_t)bytes);
    *pointer = made->base;
  }
  emu_unlock();
  return result;
}

EMU_EXPORT CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream) {
  return allocate(pointer, bytes, NULL, stream);
}

EMU_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                            CUstream stream) {
  return pool ? allocate(pointer, bytes, pool, stream) : CUDA_ERROR_INVALID_VALUE;
}

EMU_EXPORT CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream named) {
  EMU_NEEDS_INIT();
  CUstream stream = NULL;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  struct emu_memory *memory = emu_find(pointer);
  if (memory && memory->base == pointer && memory->kind == EMU_DEVICE && !memory->is_virtual &&
      !memory->freeing && (!memory->imported || memory->pool)) {
    struct task *task = emu_queue(named, TASK_FREE, &stream, &result);
    if (task) {
      task->of.memory = memory;
      memory->freeing = true;
    }
  }
  return emu_finish(stream, result, false);
}
