/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The machine file on another node of the job: its text came in the environment. */
#ifndef TOPOSEAT_EMULATOR_CARRIED_H
#define TOPOSEAT_EMULATOR_CARRIED_H

/* Makes the machine file at `path` from TOPOSEAT_EMULATED_TEXT where this node has none, and keeps
   its folder from being taken for that of a dead job. Without the variable it does nothing. */
void emu_unpack_machine(const char *path);

#endif
