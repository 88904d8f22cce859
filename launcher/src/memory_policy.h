/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reading the memory policy back; shared by toposeat-exec and the rank probe. */
#ifndef TOPOSEAT_LAUNCHER_MEMORY_POLICY_H
#define TOPOSEAT_LAUNCHER_MEMORY_POLICY_H

#include "text.h"

/* The policy in force, as "default", "preferred:0", "bind:0-1", ...; false if it cannot be read. */
bool tps_memory_policy_read(struct tps_text *text);

#endif
