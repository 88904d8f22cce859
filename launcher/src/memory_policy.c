/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "memory_policy.h"

#include "cpu_list.h"

#include <linux/mempolicy.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

bool tps_memory_policy_read(struct tps_text *text) {
  static const char *const names[] = {[MPOL_DEFAULT] = "default", [MPOL_PREFERRED] = "preferred",
                                      [MPOL_BIND] = "bind",       [MPOL_INTERLEAVE] = "interleave",
                                      [MPOL_LOCAL] = "local",     [5] = "preferred-many",
                                      [6] = "weighted-interleave"};
  struct tps_cpus nodes; /* a set of numbers like any other */
  memset(&nodes, 0, sizeof nodes);
  int mode = 0;
  if (syscall(SYS_get_mempolicy, &mode, nodes.words, (unsigned long)TPS_MAX_CPUS, 0UL, 0UL) != 0)
    return false;
  mode &= 0xff; /* above are the MPOL_F_ flags */
  if ((size_t)mode >= sizeof names / sizeof *names) {
    tps_text_add(text, "policy %d", mode);
    return true;
  }
  tps_text_add(text, "%s", names[mode]);
  if (!tps_cpus_is_empty(&nodes)) {
    tps_text_add(text, ":");
    tps_cpus_format(&nodes, text);
  }
  return true;
}
