/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the stand-in says, always on stderr. */
#ifndef TOPOSEAT_EMULATOR_SAY_H
#define TOPOSEAT_EMULATOR_SAY_H

#include <stdbool.h>
#include <stdint.h>

/* One line with the stand-in's name in front. */
void emu_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says `text` if this is the first process of the job that would (by the shared state's flag). */
void emu_banner(const char *machine, unsigned devices);

/* Nanoseconds of the clock that all processes share. */
int64_t emu_now(void);

#endif
