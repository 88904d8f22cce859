/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A copy of this process: which way it goes, and how far it has come. */
#ifndef TOPOSEAT_EMULATOR_TRANSFER_H
#define TOPOSEAT_EMULATOR_TRANSFER_H

#include "driver.h"
#include "links.h"

struct transfer {
  struct emu_copy copy;
  struct emu_sent way; /* how it will be sent */
  unsigned number;     /* among the copies on the links; 0: it is not there */
  uint64_t moved;      /* bytes that are at their destination */
  int64_t looked_ns, due_ns;
};

/* Finds the way of a copy that may begin at `start_ns`. */
void emu_transfer_begin(struct transfer *transfer, int64_t start_ns);

/* Moves what may enter the links by `now_ns`. Returns whether all is on its way; `*due_ns` is then
   when the last byte arrives, and before that when to call again. */
bool emu_transfer_advance(struct transfer *transfer, int64_t now_ns, int64_t *due_ns);

/* For a copy that nobody waits for any longer. */
void emu_transfer_end(struct transfer *transfer);

#endif
