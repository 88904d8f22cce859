/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "binding.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_NODES = 1024, NODE_WORD_BITS = 8 * (int)sizeof(unsigned long) };

static void plan_cpus(struct tps_binding *binding, const char *list,
                      struct tps_messages *messages) {
  struct tps_cpus allowed;
  if (!tps_cpus_parse(&binding->cpus, list))
    return; /* the placement was checked: not reached */
  if (!tps_cpus_read_affinity(&allowed)) {
    tps_warn(messages, "cannot read the CPU set of this process: %s", strerror(errno));
    return;
  }
  struct tps_cpus wanted = binding->cpus;
  tps_cpus_intersect(&binding->cpus, &allowed);
  struct tps_text now;
  tps_text_init(&now);
  tps_cpus_format(&allowed, &now);
  if (tps_cpus_is_empty(&binding->cpus))
    tps_leave_out(
        messages, "cpus",
        "CPUs %s are not among those this process may use (%s): not bound; was it bound by the "
        "launcher (mpirun --bind-to none) or the batch system?",
        list, now.data);
  else if (!tps_cpus_equal(&binding->cpus, &wanted))
    tps_note(messages, "of CPUs %s this process may use only some (%s)", list, now.data);
  binding->bind_cpus = !tps_cpus_is_empty(&binding->cpus);
  tps_text_free(&now);
}

/* Fills `list` with the CPUs of a NUMA node; false if there is no such node. */
static bool read_node_cpus(long node, char *list, size_t size) {
  char path[96];
  snprintf(path, sizeof path, "/sys/devices/system/node/node%ld/cpulist", node);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return false;
  ssize_t length = read(file, list, size - 1);
  close(file);
  if (length < 0)
    return false;
  list[length] = '\0';
  list[strcspn(list, "\n")] = '\0';
  return true;
}

static void plan_memory(struct tps_binding *binding, long node, enum tps_memory policy,
                        struct tps_messages *messages) {
  char cpus[4096];
  if (!read_node_cpus(node, cpus, sizeof cpus)) {
    tps_leave_out(messages, "memory",
                  "NUMA node %ld does not exist here: the memory policy is left alone", node);
  } else if (cpus[0] == '\0') {
    /* GPU memory shows up as NUMA nodes without CPUs (GH200, some MI300A set-ups). */
    tps_leave_out(
        messages, "memory",
        "NUMA node %ld has no CPUs, so it may be the memory of a GPU: the memory policy is left "
        "alone",
        node);
  } else {
    binding->policy = policy;
    binding->node = (unsigned long)node;
  }
}

void tps_binding_plan(struct tps_binding *binding, const struct tps_seat *seat,
                      enum tps_memory policy, struct tps_messages *messages) {
  *binding = (struct tps_binding){.policy = TPS_MEMORY_NONE};
  if (seat->cpus != NULL)
    plan_cpus(binding, seat->cpus, messages);
  if (seat->memory_node >= 0 && policy != TPS_MEMORY_NONE)
    plan_memory(binding, seat->memory_node, policy, messages);
}

long tps_binding_node_of(const struct tps_cpus *cpus) {
  char list[4096];
  for (long node = 0; node < MAX_NODES; node++) {
    struct tps_cpus of_node, common = *cpus;
    if (!read_node_cpus(node, list, sizeof list)) {
      if (node > 64) /* node numbers may have gaps, but not many in a row */
        return -1;
      continue;
    }
    if (list[0] == '\0' || !tps_cpus_parse(&of_node, list))
      continue;
    tps_cpus_intersect(&common, &of_node);
    if (tps_cpus_equal(&common, cpus))
      return node;
  }
  return -1;
}

void tps_binding_apply(const struct tps_binding *binding, struct tps_messages *messages) {
  if (binding->bind_cpus && !tps_cpus_set_affinity(&binding->cpus))
    tps_warn(messages, "cannot bind to the CPUs of the placement: %s", strerror(errno));
  if (binding->policy == TPS_MEMORY_NONE)
    return;
  unsigned long nodes[MAX_NODES / NODE_WORD_BITS] = {0};
  nodes[binding->node / NODE_WORD_BITS] |= 1UL << (binding->node % NODE_WORD_BITS);
  int mode = binding->policy == TPS_MEMORY_BIND ? MPOL_BIND : MPOL_PREFERRED;
  if (syscall(SYS_set_mempolicy, mode, nodes, (unsigned long)MAX_NODES) != 0)
    tps_warn(messages, "cannot set the memory policy: %s%s", strerror(errno),
             errno == EPERM ? " (containers forbid it without CAP_SYS_NICE)" : "");
}
