/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "cpu_list.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WORD_BITS = 8 * (int)sizeof(unsigned long) };

static bool holds(const struct tps_cpus *cpus, unsigned long cpu) {
  return (cpus->words[cpu / WORD_BITS] >> (cpu % WORD_BITS)) & 1;
}

/* Reads a number at `*at` and moves behind it. */
static bool read_cpu(const char **at, unsigned long *cpu) {
  const char *start = *at;
  unsigned long value = 0;
  for (; **at >= '0' && **at <= '9'; (*at)++) {
    value = value * 10 + (unsigned long)(**at - '0');
    if (value >= TPS_MAX_CPUS)
      return false;
  }
  *cpu = value;
  return *at != start;
}

bool tps_cpus_parse(struct tps_cpus *cpus, const char *list) {
  if (cpus != NULL)
    memset(cpus, 0, sizeof *cpus);
  for (const char *at = list;; at++) {
    unsigned long first, last;
    if (!read_cpu(&at, &first))
      return false;
    last = first;
    if (*at == '-') {
      at++;
      if (!read_cpu(&at, &last) || last < first)
        return false;
    }
    for (unsigned long cpu = first; cpus != NULL && cpu <= last; cpu++)
      cpus->words[cpu / WORD_BITS] |= 1UL << (cpu % WORD_BITS);
    if (*at == '\0')
      return true;
    if (*at != ',')
      return false;
  }
}

void tps_cpus_format(const struct tps_cpus *cpus, struct tps_text *text) {
  const char *separator = "";
  for (unsigned long cpu = 0; cpu < TPS_MAX_CPUS; cpu++) {
    if (!holds(cpus, cpu))
      continue;
    unsigned long last = cpu;
    while (last + 1 < TPS_MAX_CPUS && holds(cpus, last + 1))
      last++;
    tps_text_add(text, "%s%lu", separator, cpu);
    if (last > cpu)
      tps_text_add(text, "-%lu", last);
    separator = ",";
    cpu = last;
  }
}

bool tps_cpus_is_empty(const struct tps_cpus *cpus) {
  for (size_t i = 0; i < TPS_CPU_WORDS; i++)
    if (cpus->words[i] != 0)
      return false;
  return true;
}

bool tps_cpus_equal(const struct tps_cpus *first, const struct tps_cpus *second) {
  return memcmp(first, second, sizeof *first) == 0;
}

void tps_cpus_intersect(struct tps_cpus *cpus, const struct tps_cpus *other) {
  for (size_t i = 0; i < TPS_CPU_WORDS; i++)
    cpus->words[i] &= other->words[i];
}

/* The raw calls take any mask size, where glibc's wrappers come with a type of 1024 CPUs. */
bool tps_cpus_read_affinity(struct tps_cpus *cpus) {
  memset(cpus, 0, sizeof *cpus);
  return syscall(SYS_sched_getaffinity, 0, sizeof cpus->words, cpus->words) >= 0;
}

bool tps_cpus_set_affinity(const struct tps_cpus *cpus) {
  return syscall(SYS_sched_setaffinity, 0, sizeof cpus->words, cpus->words) == 0;
}
