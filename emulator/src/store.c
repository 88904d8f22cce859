/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Device memory that comes into being and is given back, each in its device's and pool's count. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"
#include "state.h"

static const uint64_t page = 4096;

uint64_t emu_whole_pages(uint64_t size) { return (size + page - 1) / page * page; }

CUresult emu_allocate_device(CUcontext context, unsigned physical, uint64_t size, bool managed,
                             struct emu_memory **result) {
  struct emu_memory memory = {.size = size,
                              .mapped = emu_whole_pages(size),
                              .kind = managed ? EMU_MANAGED : EMU_DEVICE,
                              .physical = physical,
                              .context = context,
                              .buffer_id = emu_new_buffer_id(),
                              .file = -1,
                              .references = 1};
  if (!emu_take_memory(emu_driver.machine, memory.physical, (int64_t)memory.mapped))
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (managed) {
    void *room =
        mmap(NULL, memory.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory.alias = room == MAP_FAILED ? NULL : room;
    memory.base = (uint64_t)(uintptr_t)memory.alias;
  } else {
    memory.file = emu_new_file(EMU_DEVICE_MEMORY, memory.mapped);
    if (memory.file >= 0 && !emu_map_twice(memory.file, memory.mapped, &memory.base, &memory.alias))
      memory.alias = NULL;
    memory.inode = memory.file >= 0 ? emu_inode(memory.file) : 0;
  }
  *result = memory.alias ? emu_add(&memory) : NULL;
  if (*result)
    return CUDA_SUCCESS;
  if (memory.alias && managed)
    (void)munmap(memory.alias, memory.mapped);
  else if (memory.alias)
    emu_unmap_twice(memory.base, memory.alias, memory.mapped);
  if (memory.file >= 0)
    (void)close(memory.file);
  (void)emu_take_memory(emu_driver.machine, memory.physical, -(int64_t)memory.mapped);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

void emu_release(struct emu_memory *memory) {
  if (memory->pool)
    emu_pool_count(memory->pool, -(int64_t)memory->size);
  if (!memory->imported)
    (void)emu_take_memory(emu_driver.machine, memory->physical, -(int64_t)memory->mapped);
  emu_remove(memory);
}
