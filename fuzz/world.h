/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The system as the launcher's code finds it in a fuzz target: nothing waits, and nobody is there.
   Whoever connects finds a peer that has said everything already, guests do likewise, and the clock
   goes by what somebody waits for. CMakeLists.txt gives the system's functions these names. */
#ifndef TOPOSEAT_FUZZ_WORLD_H
#define TOPOSEAT_FUZZ_WORLD_H

#include <stdbool.h>
#include <stddef.h>

/* A new world: what is said on the connections, in the order in which they are made, how many
   guests come to a listener, and whether somebody else listens already wherever one wants to. The
   texts stay the caller's. */
struct fuzz_saying {
  const void *bytes;
  size_t length;
};
void fuzz_world_begin(const struct fuzz_saying *sayings, size_t count, size_t guests, bool is_led);
/* Closes what is still open of it. */
void fuzz_world_end(void);

#endif
