/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What one process tells another: a handle names a file that its owner holds open, so that a crash
   of either side leaves nothing behind and freed memory cannot be opened. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "driver.h"

struct emu_handle emu_handle_of(const struct emu_memory *memory, uint32_t magic) {
  return (struct emu_handle){.magic = magic,
                             .process = (int32_t)getpid(),
                             .file = memory->file,
                             .physical = memory->physical,
                             .base = memory->base,
                             .size = memory->size,
                             .mapped = memory->mapped,
                             .inode = memory->inode,
                             .pool = memory->pool ? memory->pool->id : 0};
}

int emu_open_exported(const struct emu_handle *handle) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)handle->process, (int)handle->file);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file >= 0 && emu_inode(file) != handle->inode) {
    (void)close(file);
    return -1;
  }
  return file;
}
