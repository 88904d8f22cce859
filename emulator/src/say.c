/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Paths and names of machines may hold anything; it does not reach the terminal. */
static void tame(char *line) {
  for (; *line != '\0'; ++line)
    if (*line < ' ' || *line > '~')
      *line = '?';
}

void emu_say(const char *format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  tame(line);
  (void)fprintf(stderr, "toposeat emulator: %s\n", line);
}

bool emu_is_quiet(void) {
  const char *quiet = getenv("TOPOSEAT_EMULATOR_QUIET");
  return quiet && *quiet && *quiet != '0';
}

void emu_banner(const char *machine, unsigned devices) {
  char line[256];
  (void)snprintf(line, sizeof line, "%s", machine);
  tame(line);
  (void)fprintf(stderr,
                "*** toposeat emulator: NO REAL GPU. %u emulated devices of machine \"%s\"; every "
                "time is emulated. ***\n",
                devices, line);
}

int64_t emu_now(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
