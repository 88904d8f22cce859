/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The stand-in node (`toposeat emulate`): its GPUs are those of a machine file, but CPUs, memory
   and NICs are those of the machine it runs on. */
#ifndef TOPOSEAT_LAUNCHER_EMULATED_H
#define TOPOSEAT_LAUNCHER_EMULATED_H

#include "placement.h"

bool tps_is_emulated(void);

/* Whether the emulated machine has a device, by PCI bus id and, where the placement has one, UUID.
   True where the machine's text cannot be read. */
bool tps_emulated_has(const struct tps_device *device);

#endif
