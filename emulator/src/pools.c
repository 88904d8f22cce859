/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The pools of this process, and what was taken from each. */
#include <stdlib.h>
#include <unistd.h>

#include "driver.h"

static CUmemoryPool pools;

bool emu_pool_lives(CUmemoryPool wanted) {
  for (CUmemoryPool pool = pools; pool; pool = pool->next)
    if (pool == wanted)
      return true;
  return false;
}

CUmemoryPool emu_new_pool(unsigned physical, int handle_types) {
  CUmemoryPool pool = calloc(1, sizeof *pool);
  if (!pool)
    return NULL;
  pool->physical = physical;
  pool->handle_types = handle_types;
  pool->file = -1;
  pool->access[physical] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  for (int i = 0; i < 3; ++i)
    pool->reuse[i] = 1;
  pool->next = pools;
  pools = pool;
  return pool;
}

void emu_delete_pool(CUmemoryPool pool) {
  CUmemoryPool *at = &pools;
  while (*at != pool)
    at = &(*at)->next;
  *at = pool->next;
  if (pool->file >= 0)
    (void)close(pool->file);
  free(pool);
}

void emu_pool_count(CUmemoryPool pool, int64_t bytes) {
  pool->used = (uint64_t)((int64_t)pool->used + bytes);
  if (pool->used > pool->most_used)
    pool->most_used = pool->used;
}

bool emu_pool_is_shared(CUmemoryPool pool) {
  for (unsigned i = 0; i < EMU_MAX_DEVICES; ++i)
    if (i != pool->physical && pool->access[i])
      return true;
  return pool->imported;
}
