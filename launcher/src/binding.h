/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* CPU set and memory policy of this process, which the program inherits through exec. */
#ifndef TOPOSEAT_LAUNCHER_BINDING_H
#define TOPOSEAT_LAUNCHER_BINDING_H

#include "cpu_list.h"
#include "message.h"
#include "options.h"
#include "placement.h"

struct tps_binding {
  bool bind_cpus;
  struct tps_cpus cpus;
  enum tps_memory policy; /* TPS_MEMORY_NONE: leave the memory policy alone */
  unsigned long node;
};

/* What of the seat's CPUs and memory node this process can have; never more than it has now. */
void tps_binding_plan(struct tps_binding *binding, const struct tps_seat *seat,
                      enum tps_memory policy, struct tps_messages *messages);
void tps_binding_apply(const struct tps_binding *binding, struct tps_messages *messages);

/* The NUMA node that holds all of `cpus`, -1 if there is none. */
long tps_binding_node_of(const struct tps_cpus *cpus);

#endif
