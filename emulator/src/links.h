/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The links of the node, and all copies that are under way on them in any process.
 *
 * Copies are cut into chunks; a chunk takes its turn on everything that it occupies. Whoever looks
 * at a copy sends the chunks of all of them whose turn has come, in the order of their turns: a
 * process that waits for a core keeps its share of the links, and finds its bytes sent when it
 * comes back. */
#ifndef TOPOSEAT_EMULATOR_LINKS_H
#define TOPOSEAT_EMULATOR_LINKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "machine.h"

enum { EMU_MAX_COPIES = 1024 };

/* A copy of some process. */
struct emu_sent {
  pid_t owner;             /* 0: nobody's */
  bool under_way;          /* not all chunks are sent */
  struct emu_path path[2]; /* one stage, or two with a buffer between them */
  unsigned stages;
  uint64_t bytes, chunk, moved;
  int64_t clock_ns[2]; /* when the next chunk may enter the stage */
};

/* In the state that all processes share; zeros are a good beginning. */
struct emu_links {
  int64_t free_at_ns[EMU_MAX_CHANNELS];
  int64_t pair_free_at_ns[EMU_MAX_PAIRS], both_free_at_ns[EMU_MAX_PAIRS];
  unsigned used; /* entries of `copy` that were ever somebody's */
  struct emu_sent copy[EMU_MAX_COPIES];
};

/* Adds a copy. Returns its number, from 1 on; 0 if there are too many: try again later. */
unsigned emu_links_add(const struct emu_sent *copy);

/* Sends what may enter the links by `now_ns`, of all copies. Returns whether all of this copy is
   sent, and then forgets it. `*moved` bytes are sent so far; `*due_ns` is when the last byte
   arrives, and before that when to look again. */
bool emu_links_look(unsigned number, int64_t now_ns, uint64_t *moved, int64_t *due_ns);

/* Nobody waits any longer for a copy. */
void emu_links_forget(unsigned number);

#endif
