/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What one process tells another: a handle names a file that its owner holds open, so that a crash
   of either side leaves nothing behind and freed memory cannot be opened. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
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

static int open_file(const struct emu_handle *handle) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)handle->process, (int)handle->file);
  return open(path, O_RDWR | O_CLOEXEC);
}

/* A process that only waits for its parent has no program any more. */
bool emu_owner_lives(const struct emu_handle *handle) {
  char path[64];
  char program[2];
  (void)snprintf(path, sizeof path, "/proc/%d/exe", (int)handle->process);
  return readlink(path, program, sizeof program) >= 0;
}

void emu_follow(struct emu_handle *handle) {
  static const char wanted[] = "/memfd:" EMU_DEVICE_MEMORY " ";
  char path[64];
  char name[sizeof wanted] = "";
  struct stat is;
  const int file = open_file(handle);
  if (file < 0)
    return;
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(path, name, sizeof name - 1);
  if (length == (ssize_t)sizeof name - 1 && memcmp(name, wanted, sizeof name - 1) == 0 &&
      fstat(file, &is) == 0 && (uint64_t)is.st_size >= handle->mapped)
    handle->inode = is.st_ino;
  (void)close(file);
}

int emu_open_exported(const struct emu_handle *handle) {
  const int file = open_file(handle);
  if (file >= 0 && emu_inode(file) != handle->inode) {
    (void)close(file);
    return -1;
  }
  return file;
}
