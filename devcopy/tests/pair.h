/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two processes with one device each, joined by a socket. */
#ifndef TOPOSEAT_DEVCOPY_PAIR_H
#define TOPOSEAT_DEVCOPY_PAIR_H

#include <stdlib.h>

#include "toposeat_devcopy.h"

/* Ends the process with the place and the two values unless they are equal. */
#define EXPECT(expected, found) expect(__FILE__, __LINE__, (long)(expected), (long)(found))
void expect(const char *file, int line, long expected, long found);

struct side {
  int number; /* 0 or 1 */
  int socket;
  int device; /* ordinal */
  tdc_context *context;
  tdc_link *link; /* NULL where the scenario connects itself */
};

struct scenario {
  const char *name;
  int devices[2];
  tdc_options options;
  bool unconnected;
  bool second_is_killed; /* its end by a signal is what the scenario wants */
  bool needs_stand_in;   /* a machine that not every node is */
  void (*run)(struct side *side);
};

/* Runs both sides in processes of their own; true if both ended well. */
bool run_pair(const struct scenario *scenario);

/* Bytes that depend on `seed`, put into or checked in device or host memory. */
void put_pattern(struct side *side, uint64_t pointer, size_t bytes, unsigned seed, bool on_device);
void check_pattern(struct side *side, uint64_t pointer, size_t bytes, unsigned seed,
                   bool on_device);
uint64_t host_memory(size_t bytes);

/* virtual_memory.c */
void virtual_memory(struct side *side);
void virtual_private(struct side *side);
void virtual_pieces(struct side *side);
void virtual_no_peers(struct side *side);

extern const struct scenario scenarios[];
extern const unsigned scenario_count;

#endif
