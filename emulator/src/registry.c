/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* All allocations this process knows, sorted by address, and the files behind device memory. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"

static const uint64_t device_alignment = 2U << 20; /* as the driver gives memory */

static struct emu_memory **sorted;
static unsigned count, capacity;

/* The first allocation that does not end at or before `pointer`. */
static unsigned position(uint64_t pointer) {
  unsigned low = 0;
  unsigned high = count;
  while (low < high) {
    const unsigned middle = (low + high) / 2;
    if (sorted[middle]->base + sorted[middle]->size <= pointer)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

struct emu_memory *emu_find(uint64_t pointer) {
  const unsigned at = position(pointer);
  return at < count && sorted[at]->base <= pointer ? sorted[at] : NULL;
}

struct emu_memory *emu_add(const struct emu_memory *memory) {
  if (count == capacity) {
    const unsigned more = capacity ? 2 * capacity : 64;
    struct emu_memory **grown =
        (struct emu_memory **)realloc((void *)sorted, more * sizeof(struct emu_memory *));
    if (!grown)
      return NULL;
    sorted = grown;
    capacity = more;
  }
  struct emu_memory *added = malloc(sizeof *added);
  if (!added)
    return NULL;
  *added = *memory;
  const unsigned at = position(memory->base);
  memmove((void *)&sorted[at + 1], (const void *)&sorted[at],
          (count - at) * sizeof(struct emu_memory *));
  sorted[at] = added;
  ++count;
  return added;
}

void emu_remove(struct emu_memory *memory) {
  const unsigned at = position(memory->base);
  if (at == count || sorted[at] != memory)
    return;
  memmove((void *)&sorted[at], (const void *)&sorted[at + 1],
          (count - at - 1) * sizeof(struct emu_memory *));
  --count;
  if (memory->kind == EMU_DEVICE && !memory->is_virtual)
    emu_unmap_twice(memory->base, memory->alias, memory->mapped);
  else if (memory->is_virtual) /* both ranges of addresses stay reserved */
    emu_clear_addresses(memory->alias, memory->mapped);
  else if (!memory->registered)
    (void)munmap(memory->alias, memory->mapped);
  if (memory->file >= 0)
    (void)close(memory->file);
  free(memory);
}

unsigned emu_allocations(void) { return count; }

struct emu_memory *emu_allocation(unsigned number) { return sorted[number]; }

uint64_t emu_new_buffer_id(void) {
  static atomic_uint_fast64_t last;
  return (uint64_t)atomic_fetch_add(&last, 1) + 1;
}

uint64_t emu_inode(int file) {
  struct stat is;
  return fstat(file, &is) == 0 ? (uint64_t)is.st_ino : 0;
}

int emu_new_file(const char *name, uint64_t size) {
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, (off_t)size) != 0) {
    (void)close(file);
    return -1;
  }
  return file;
}

void *emu_new_addresses(uint64_t size, uint64_t align) {
  char *room =
      mmap(NULL, size + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED)
    return NULL;
  const uint64_t skip = (align - (uint64_t)(uintptr_t)room % align) % align;
  if (skip)
    (void)munmap(room, skip);
  if (align - skip)
    (void)munmap(room + skip + size, align - skip);
  return room + skip;
}

bool emu_clear_addresses(char *at, uint64_t size) {
  return mmap(at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
              0) != MAP_FAILED;
}

bool emu_map_at(int file, uint64_t mapped, uint64_t base, char *alias) {
  void *side = mmap(alias, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
  void *seen = mmap((char *)(uintptr_t)base, mapped, PROT_NONE, MAP_SHARED | MAP_FIXED, file, 0);
  return side != MAP_FAILED && seen != MAP_FAILED;
}

bool emu_map_twice(int file, uint64_t mapped, uint64_t *base, char **alias) {
  char *view = emu_new_addresses(mapped, device_alignment);
  if (!view)
    return false;
  void *side = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  void *seen = mmap(view, mapped, PROT_NONE, MAP_SHARED | MAP_FIXED, file, 0);
  if (side == MAP_FAILED || seen == MAP_FAILED) {
    if (side != MAP_FAILED)
      (void)munmap(side, mapped);
    (void)munmap(view, mapped);
    return false;
  }
  *base = (uint64_t)(uintptr_t)view;
  *alias = side;
  return true;
}

void emu_unmap_twice(uint64_t base, char *alias, uint64_t mapped) {
  (void)munmap((void *)(uintptr_t)base, mapped);
  (void)munmap(alias, mapped);
}
