/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sets of CPUs in the Linux list form "0-3,8-11". */
#ifndef TOPOSEAT_LAUNCHER_CPU_LIST_H
#define TOPOSEAT_LAUNCHER_CPU_LIST_H

#include "text.h"

/* CONFIG_NR_CPUS cannot be larger on any architecture of Linux 6. */
enum { TPS_MAX_CPUS = 8192, TPS_CPU_WORDS = TPS_MAX_CPUS / (8 * (int)sizeof(unsigned long)) };

/* Laid out like the kernel's CPU mask: bit c of the whole array is CPU c. */
struct tps_cpus {
  unsigned long words[TPS_CPU_WORDS];
};

/* False if `list` is no such list. Only checks it where `cpus` is NULL. */
bool tps_cpus_parse(struct tps_cpus *cpus, const char *list);
void tps_cpus_format(const struct tps_cpus *cpus, struct tps_text *text);
bool tps_cpus_is_empty(const struct tps_cpus *cpus);
bool tps_cpus_equal(const struct tps_cpus *first, const struct tps_cpus *second);
void tps_cpus_intersect(struct tps_cpus *cpus, const struct tps_cpus *other);

/* The CPUs this process may run on; false with errno on failure. */
bool tps_cpus_read_affinity(struct tps_cpus *cpus);
bool tps_cpus_set_affinity(const struct tps_cpus *cpus);

#endif
