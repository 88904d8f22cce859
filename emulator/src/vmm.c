/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Virtual memory management: physical allocations, ranges of addresses, and files that carry an
   allocation to another process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"
#include "state.h"

enum { MAX_HANDLES = 4096, GRANULARITY = 2 << 20 };

struct physical {
  int file; /* -1: the entry is free */
  uint64_t size;
  unsigned device;
  unsigned references; /* handles and mappings */
  bool ours;           /* counts as this process's memory */
  int handle_types;
};

/* Addresses as the program sees them, and as the copy engine does: mappings that lie side by side
   there do so here as well, and copies may cross their borders. */
struct range {
  uint64_t base, size;
  char *alias;
};

static struct physical table[MAX_HANDLES];
static bool table_is_ready;
static struct range ranges[MAX_HANDLES];

static struct physical *entry(CUmemGenericAllocationHandle handle) {
  if (!table_is_ready || handle == 0 || handle > MAX_HANDLES || table[handle - 1].file < 0)
    return NULL;
  return &table[handle - 1];
}

static struct physical *free_entry(CUmemGenericAllocationHandle *handle) {
  for (unsigned i = 0; !table_is_ready && i < MAX_HANDLES; ++i)
    table[i].file = -1;
  table_is_ready = true;
  for (unsigned i = 0; i < MAX_HANDLES; ++i)
    if (table[i].file < 0) {
      *handle = i + 1;
      return &table[i];
    }
  return NULL;
}

static void drop(struct physical *physical) {
  if (--physical->references)
    return;
  if (physical->ours)
    (void)emu_take_memory(emu_driver.machine, physical->device, -(int64_t)physical->size);
  (void)close(physical->file);
  physical->file = -1;
}

static CUresult check_properties(const CUmemAllocationProp *properties) {
  EMU_NEEDS_INIT();
  if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (!emu_is_ordinal(properties->location.id))
    return CUDA_ERROR_INVALID_DEVICE;
  return properties->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity,
                                                  const CUmemAllocationProp *properties,
                                                  int option) {
  (void)option;
  const CUresult result = granularity ? check_properties(properties) : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    *granularity = GRANULARITY;
  return result;
}

EMU_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                                const CUmemAllocationProp *properties, unsigned long long flags) {
  const CUresult bad = check_properties(properties);
  if (bad != CUDA_SUCCESS)
    return bad;
  if (!handle || !size || size % GRANULARITY || flags)
    return CUDA_ERROR_INVALID_VALUE;
  char name[64];
  const unsigned device = emu_driver.visible.physical[properties->location.id];
  (void)snprintf(name, sizeof name, "toposeat-device-%u", device); /* for who imports it */
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  emu_lock();
  struct physical *made = free_entry(handle);
  if (made && emu_take_memory(emu_driver.machine, device, (int64_t)size)) {
    const int file = emu_new_file(name, size);
    if (file >= 0) {
      *made = (struct physical){.file = file,
                                .size = size,
                                .device = device,
                                .references = 1,
                                .ours = true,
                                .handle_types = properties->requestedHandleTypes};
      result = CUDA_SUCCESS;
    } else
      (void)emu_take_memory(emu_driver.machine, device, -(int64_t)size);
  }
  emu_unlock();
  return result;
}

EMU_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  EMU_NEEDS_INIT();
  emu_lock();
  struct physical *physical = entry(handle);
  if (physical)
    drop(physical);
  emu_unlock();
  return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EMU_EXPORT CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t size, size_t alignment,
                                        CUdeviceptr address, unsigned long long flags) {
  (void)address;
  EMU_NEEDS_INIT();
  if (!pointer || !size || size % GRANULARITY || flags || (alignment & (alignment - 1)))
    return CUDA_ERROR_INVALID_VALUE;
  const uint64_t align = alignment > GRANULARITY ? alignment : GRANULARITY;
  char *room = emu_new_addresses(size, align);
  char *alias = room ? emu_new_addresses(size, align) : NULL;
  if (!alias) {
    if (room)
      (void)munmap(room, size);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  emu_lock();
  unsigned slot = 0;
  while (slot < MAX_HANDLES && ranges[slot].size)
    ++slot;
  if (slot < MAX_HANDLES)
    ranges[slot] = (struct range){(uint64_t)(uintptr_t)room, size, alias};
  emu_unlock();
  if (slot == MAX_HANDLES) {
    (void)munmap(room, size);
    (void)munmap(alias, size);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *pointer = (uint64_t)(uintptr_t)room;
  return CUDA_SUCCESS;
}

static struct range *range_of(uint64_t pointer, uint64_t size) {
  for (unsigned i = 0; i < MAX_HANDLES; ++i)
    if (ranges[i].size && ranges[i].base <= pointer && size <= ranges[i].size &&
        pointer - ranges[i].base <= ranges[i].size - size)
      return &ranges[i];
  return NULL;
}

EMU_EXPORT CUresult cuMemAddressFree(CUdeviceptr pointer, size_t size) {
  EMU_NEEDS_INIT();
  emu_lock();
  struct range *range = range_of(pointer, size);
  bool good = range && range->base == pointer && range->size == size;
  for (unsigned i = 0; good && i < emu_allocations(); ++i) /* still mapped: refused */
    good = emu_allocation(i)->base < pointer || emu_allocation(i)->base >= pointer + size;
  if (good) {
    (void)munmap((void *)(uintptr_t)pointer, size);
    (void)munmap(range->alias, size);
    range->size = 0;
  }
  emu_unlock();
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult map_here(uint64_t pointer, uint64_t size, struct physical *physical) {
  const struct range *range = range_of(pointer, size);
  if (!physical || !range || size != physical->size || (pointer - range->base) % GRANULARITY)
    return CUDA_ERROR_INVALID_VALUE;
  if (emu_find(pointer))
    return CUDA_ERROR_INVALID_VALUE;
  const int file = dup(physical->file);
  struct emu_memory memory = {.base = pointer,
                              .size = size,
                              .mapped = size,
                              .alias = range->alias + (pointer - range->base),
                              .kind = EMU_DEVICE,
                              .physical = physical->device,
                              .context = emu_current(),
                              .buffer_id = emu_new_buffer_id(),
                              .file = file,
                              .inode = file < 0 ? 0 : emu_inode(file),
                              .is_virtual = true,
                              .references = 1};
  if (file < 0 || !emu_map_at(file, size, pointer, memory.alias) || !emu_add(&memory)) {
    if (file >= 0)
      (void)close(file);
    return CUDA_ERROR_MAP_FAILED;
  }
  ++physical->references;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuMemMap(CUdeviceptr pointer, size_t size, size_t offset,
                             CUmemGenericAllocationHandle handle, unsigned long long flags) {
  EMU_NEEDS_INIT();
  if (offset || flags)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  const CUresult result = map_here(pointer, size, entry(handle));
  emu_unlock();
  return result;
}

static struct physical *behind(const struct emu_memory *memory) {
  for (unsigned i = 0; table_is_ready && i < MAX_HANDLES; ++i)
    if (table[i].file >= 0 && emu_inode(table[i].file) == memory->inode)
      return &table[i];
  return NULL;
}

/* Addresses that are reserved and not mapped are unmapped without a complaint. */
EMU_EXPORT CUresult cuMemUnmap(CUdeviceptr pointer, size_t size) {
  EMU_NEEDS_INIT();
  emu_drain_all();
  emu_lock();
  struct emu_memory *memory = emu_find(pointer);
  bool good = memory ? memory->is_virtual && memory->base == pointer && memory->size == size
                     : range_of(pointer, size) != NULL;
  if (good && memory) {
    struct physical *physical = behind(memory);
    good = emu_clear_addresses((char *)(uintptr_t)pointer, size);
    emu_remove(memory);
    if (physical)
      drop(physical);
  }
  emu_unlock();
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Access is per device; the stand-in's copy engines reach all that the machine lets them. */
EMU_EXPORT CUresult cuMemSetAccess(CUdeviceptr pointer, size_t size, const CUmemAccessDesc *access,
                                   size_t count) {
  EMU_NEEDS_INIT();
  if (!access || !count)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  const struct emu_memory *memory = emu_find(pointer);
  CUresult result = memory && memory->is_virtual && size == memory->size ? CUDA_SUCCESS
                                                                         : CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; result == CUDA_SUCCESS && i < count; ++i) {
    const int device = access[i].location.id;
    const bool seen = emu_is_ordinal(device);
    const unsigned physical = seen ? emu_driver.visible.physical[device] : 0;
    if (!seen || (physical != memory->physical &&
                  !emu_way(emu_driver.machine, physical, memory->physical)->peer))
      result = CUDA_ERROR_INVALID_DEVICE;
  }
  emu_unlock();
  return result;
}

EMU_EXPORT CUresult cuMemExportToShareableHandle(void *shareable,
                                                 CUmemGenericAllocationHandle handle, int type,
                                                 unsigned long long flags) {
  EMU_NEEDS_INIT();
  if (!shareable || flags)
    return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_NOT_SUPPORTED;
  emu_lock();
  const struct physical *physical = entry(handle);
  const bool allowed = physical && (physical->handle_types & type);
  const int file = allowed ? dup(physical->file) : -1;
  emu_unlock();
  if (file < 0)
    return allowed ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_ERROR_INVALID_VALUE;
  memcpy(shareable, &file, sizeof file);
  return CUDA_SUCCESS;
}

/* The device is in the file's name. */
static bool device_of(int file, unsigned *device) {
  char path[64];
  char name[128];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(path, name, sizeof name - 1);
  if (length <= 0)
    return false;
  name[length] = 0;
  static const char start[] = "/memfd:toposeat-device-";
  if (strncmp(name, start, sizeof start - 1) != 0)
    return false;
  *device = (unsigned)strtoul(name + sizeof start - 1, NULL, 10);
  return *device < emu_driver.machine->devices;
}

EMU_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
                                                   void *shareable, int type) {
  EMU_NEEDS_INIT();
  if (!handle)
    return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_NOT_SUPPORTED;
  const int given = (int)(intptr_t)shareable;
  struct stat is;
  unsigned device = 0;
  if (fstat(given, &is) != 0 || !device_of(given, &device))
    return CUDA_ERROR_INVALID_VALUE;
  const int file = dup(given);
  if (file < 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  emu_lock();
  struct physical *made = free_entry(handle);
  if (made)
    *made = (struct physical){.file = file,
                              .size = (uint64_t)is.st_size,
                              .device = device,
                              .references = 1,
                              .handle_types = type};
  emu_unlock();
  if (!made)
    (void)close(file);
  return made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EMU_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle,
                                                void *pointer) {
  EMU_NEEDS_INIT();
  if (!handle)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  const struct emu_memory *memory = emu_find((uint64_t)(uintptr_t)pointer);
  struct physical *physical = memory && memory->is_virtual ? behind(memory) : NULL;
  if (physical) {
    ++physical->references;
    *handle = (uint64_t)(physical - table) + 1;
  }
  emu_unlock();
  return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EMU_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                           CUmemGenericAllocationHandle handle) {
  EMU_NEEDS_INIT();
  if (!properties)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  const struct physical *physical = entry(handle);
  if (physical) {
    memset(properties, 0, sizeof *properties);
    properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties->requestedHandleTypes = physical->handle_types;
    properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    const int ordinal = emu_ordinal_of(physical->device);
    properties->location.id = ordinal < 0 ? 0 : ordinal;
  }
  emu_unlock();
  return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
