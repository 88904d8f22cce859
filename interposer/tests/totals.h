/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sums over the segments that a process left: an oracle that shares only the layout with it. */
#ifndef TOPOSEAT_TOTALS_H
#define TOPOSEAT_TOTALS_H

#include "toposeat_record.h"

#define TOTALS_PEERS 64

struct totals {
  int segments;
  uint64_t messages[4][TPS_SPACES][TOTALS_PEERS];
  uint64_t bytes[4][TPS_SPACES][TOTALS_PEERS];
  uint64_t events; /* collective calls */
  uint64_t event_bytes;
  uint64_t calls[TPS_TIME_KINDS][TPS_SPACES];
  uint64_t device_uses[TPS_MAX_DEVICES];
  uint64_t device_bytes[TPS_MAX_DEVICES];
  uint64_t phase_messages[TPS_MAX_PHASES];
  uint64_t lost;
  uint32_t state; /* of the main segment */
};

/* Adds up all segments in `folder`. Ends the program with a message if one cannot be read. */
struct totals totals_of(const char *folder);
/* Ends the program with a message unless the two are equal. */
void expect(const char *what, uint64_t seen, uint64_t expected);

#endif
