/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where a pointer of the program leads: whose memory, and how the copy engine reaches it. */
#include <string.h>

#include "driver.h"

/* Bytes from `pointer` to the end of the memory, and of what is mapped right behind it. */
static uint64_t bytes_behind(const struct emu_memory *memory, uint64_t pointer, uint64_t wanted) {
  const uint64_t end = pointer + wanted;
  while (memory->is_virtual && memory->base + memory->size < end) {
    const struct emu_memory *next = emu_find(memory->base + memory->size);
    if (!next || !next->is_virtual || next->alias != memory->alias + memory->size)
      break;
    memory = next;
  }
  return memory->base + memory->size - pointer;
}

CUresult emu_resolve(uint64_t pointer, uint64_t bytes, struct emu_place *place) {
  const struct emu_memory *memory = emu_find(pointer);
  memset(place, 0, sizeof *place);
  if (!memory) { /* the program's own memory */
    place->bytes = (char *)(uintptr_t)pointer;
    return pointer ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t offset = pointer - memory->base;
  if (memory->kind != EMU_HOST && bytes > bytes_behind(memory, pointer, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  place->bytes = memory->alias + offset;
  place->on_device = memory->kind != EMU_HOST;
  place->physical = memory->physical;
  place->reachable_by_peers =
      memory->pool ? emu_pool_is_shared(memory->pool) : memory->imported || memory->is_virtual;
  return CUDA_SUCCESS;
}
