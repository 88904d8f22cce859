/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which devices this process sees, and in what order: the driver's rules for CUDA_VISIBLE_DEVICES
   and CUDA_DEVICE_ORDER, below what a container or cgroup hides. */
#ifndef TOPOSEAT_EMULATOR_VISIBLE_H
#define TOPOSEAT_EMULATOR_VISIBLE_H

#include <stdbool.h>

#include "machine.h"

struct emu_visible {
  unsigned count;
  unsigned physical[EMU_MAX_DEVICES]; /* of each ordinal */
  bool repeated;                      /* the list names a device twice, and so selects none */
};

/* Reads TOPOSEAT_EMULATED_HIDDEN (what a cgroup hides: indices with commas), then the variables. */
void emu_visible_devices(const struct emu_machine *machine, struct emu_visible *visible);

/* Whether a device is hidden from this process by its cgroup. */
bool emu_is_hidden(const struct emu_machine *machine, unsigned physical);

/* What `list` (CUDA_VISIBLE_DEVICES) selects from `count` devices that `uuid` names: stops at the
   first entry that names none, as the driver does; -1 if it names a device twice. */
int emu_select(const char *list, const char *const *uuid, unsigned count, unsigned *selected);

#endif
