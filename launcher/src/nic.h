/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Variables that point communication libraries at a rank's NIC. */
#ifndef TOPOSEAT_LAUNCHER_NIC_H
#define TOPOSEAT_LAUNCHER_NIC_H

#include "binding.h"
#include "environment.h"
#include "message.h"
#include "placement.h"

/* What a rank is to use, and who is beside it. */
struct tps_nic_seat {
  const char *nic;
  const struct tps_binding *binding;
  const struct tps_placement *placement;
  const struct tps_seat *own; /* NULL: which local rank uses which NIC is not known */
};

/* Sets what fits the NIC's kind unless the user has set it. NCCL is left alone, and what would hide
   adapters from it: it wants to see all NICs and picks by topology itself. What is not set, and
   why: docs/reference/nics.md. */
void tps_nic_plan(struct tps_environment *environment, const struct tps_nic_seat *seat,
                  struct tps_messages *messages);

/* The variables tps_nic_plan may set, NULL-terminated. */
extern const char *const tps_nic_variables[];

#endif
