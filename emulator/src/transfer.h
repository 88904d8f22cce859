/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A copy on its way: which channels it occupies, and how far it has come. */
#ifndef TOPOSEAT_EMULATOR_TRANSFER_H
#define TOPOSEAT_EMULATOR_TRANSFER_H

#include "driver.h"

struct transfer {
  struct emu_copy copy;
  struct emu_path local;          /* of a copy within a device */
  const struct emu_path *path[2]; /* one stage, or two through host memory; NULL: no link is used */
  unsigned engine[2];             /* device whose copy engine drives the stage */
  int64_t clock_ns[2];            /* when the next chunk may enter the stage */
  uint64_t moved, chunk;
};

/* Finds the way of a copy that may begin at `start_ns`; `device` is that of the context which asks.
 */
void emu_transfer_begin(struct transfer *transfer, unsigned device, int64_t start_ns);

/* Moves what may enter the links by `now_ns`. Returns whether all is on its way; `*due_ns` is then
   when the last byte arrives, and before that when to call again. */
bool emu_transfer_advance(struct transfer *transfer, int64_t now_ns, int64_t *due_ns);

#endif
