/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the stand-in says, always on stderr. */
#ifndef TOPOSEAT_EMULATOR_SAY_H
#define TOPOSEAT_EMULATOR_SAY_H

#include <stdbool.h>
#include <stdint.h>

/* One line with the stand-in's name in front. */
void emu_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether the user asked for no banner. */
bool emu_is_quiet(void);
/* What every program should know, once a job: that nothing here is a GPU. */
void emu_banner(const char *machine, unsigned devices);

/* Nanoseconds of the clock that all processes share. */
int64_t emu_now(void);

#endif
