/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Whose CPUs, memory node and NIC a rank gets: those of the device that it will really use. */
#ifndef TOPOSEAT_LAUNCHER_NEARBY_H
#define TOPOSEAT_LAUNCHER_NEARBY_H

#include "visibility.h"

struct tps_nearby {
  const struct tps_seat *seat; /* NULL: not known, nothing is bound */
  struct tps_seat made; /* where no rank is placed on the device: what the kernel says of it */
  char cpus[4096];
};

/* Call it after tps_visibility_plan. `nearby` stays where it is while its seat is used. */
void tps_nearby_find(struct tps_nearby *nearby, const struct tps_visibility *visibility);

#endif
