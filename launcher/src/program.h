/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program before it is started: where it is, and whether it loads libraries. */
#ifndef TOPOSEAT_LAUNCHER_PROGRAM_H
#define TOPOSEAT_LAUNCHER_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/* Whether exec would find a program, as it looks for it; the first path at which it may. */
bool tps_find_program(const char *program, char *path, size_t size);

/* Whether a program is an executable of this machine that names no loader, which would load the
   rank probe. What cannot be read, and a script, is not. */
bool tps_is_static(const char *program);

#endif
