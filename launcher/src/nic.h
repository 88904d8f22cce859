/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Variables that point communication libraries at a rank's NIC. */
#ifndef TOPOSEAT_LAUNCHER_NIC_H
#define TOPOSEAT_LAUNCHER_NIC_H

#include "binding.h"
#include "environment.h"
#include "message.h"

/* Sets what fits the NIC's kind unless the user has set it. NCCL is left alone: it wants to see all
   NICs and picks by topology itself. */
void tps_nic_plan(struct tps_environment *environment, const char *nic,
                  const struct tps_binding *binding, struct tps_messages *messages);

/* The variables tps_nic_plan may set, NULL-terminated. */
extern const char *const tps_nic_variables[];

#endif
