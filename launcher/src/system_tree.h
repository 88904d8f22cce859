/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Files below /proc, /dev and /sys. TOPOSEAT_SYSROOT puts another tree in front, for tests. */
#ifndef TOPOSEAT_LAUNCHER_SYSTEM_TREE_H
#define TOPOSEAT_LAUNCHER_SYSTEM_TREE_H

#include "text.h"

/* Adds where `path`, which is absolute, is to be looked for. */
void tps_system_path(struct tps_text *text, const char *path);

bool tps_system_exists(const char *path);

/* The first line of a file without its end; false if it cannot be read. */
bool tps_system_read(const char *path, char *line, size_t size);

#endif
