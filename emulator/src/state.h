/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What all processes on the emulated node share: what is on the links, and how much of each
   device's memory every process holds. A file of the same folder as the machine file. */
#ifndef TOPOSEAT_EMULATOR_STATE_H
#define TOPOSEAT_EMULATOR_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "links.h"
#include "machine.h"

/* Maps the shared state; false, with a line on stderr, if that fails. */
bool emu_state_open(const struct emu_machine *machine);

/* Whether no other process has said the banner yet. */
bool emu_state_first_here(void);

/* The links, locked for this process until the unlock. */
struct emu_links *emu_state_lock(void);
void emu_state_unlock(void);

/* Takes memory of a device; false if there is not that much. `bytes` < 0 gives it back. */
bool emu_take_memory(const struct emu_machine *machine, unsigned device, int64_t bytes);

/* What living processes hold of a device. */
uint64_t emu_memory_used(unsigned device);

#endif
