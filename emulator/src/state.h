/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What all processes on the emulated node share: when each channel is free again, and how much of
   each device's memory every process holds. A file of the same folder as the machine file. */
#ifndef TOPOSEAT_EMULATOR_STATE_H
#define TOPOSEAT_EMULATOR_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "machine.h"

/* Maps the shared state; false, with a line on stderr, if that fails. */
bool emu_state_open(const struct emu_machine *machine);

/* Whether no other process has said the banner yet. */
bool emu_state_first_here(void);

/* Sends `bytes` along `path` as soon as `start_ns` allows and the channels, the pair's limit and a
   copy engine of `device` are free. Returns when the last byte arrives (without the path's
   latency).
 */
int64_t emu_reserve(const struct emu_machine *machine, const struct emu_path *path, unsigned device,
                    uint64_t bytes, int64_t start_ns);

/* Takes memory of a device; false if there is not that much. `bytes` < 0 gives it back. */
bool emu_take_memory(const struct emu_machine *machine, unsigned device, int64_t bytes);

/* What living processes hold of a device. */
uint64_t emu_memory_used(unsigned device);

#endif
