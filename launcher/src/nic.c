/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "nic.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *const tps_nic_variables[] = {"UCX_NET_DEVICES", "PSM3_NIC", "MPICH_OFI_NIC_POLICY",
                                         NULL};

static void set_unless_set(struct tps_environment *environment, const char *name, const char *value,
                           struct tps_messages *messages) {
  const char *inherited = tps_environment_get(environment, name);
  if (inherited == NULL)
    tps_environment_set(environment, name, value);
  else if (strcmp(inherited, value) != 0)
    tps_note(messages, "%s=%.60s was set before and stays; the placement says %.60s", name,
             inherited, value);
}

static bool starts_with(const char *text, const char *start) {
  return strncmp(text, start, strlen(start)) == 0;
}

/* Whether UCX calls the device by its bare name: Ethernet interfaces have no port number. */
static bool is_ethernet(const char *nic) {
  char path[128];
  snprintf(path, sizeof path, "/sys/class/infiniband/%.64s", nic);
  if (access(path, F_OK) == 0)
    return false;
  snprintf(path, sizeof path, "/sys/class/net/%.64s", nic);
  return access(path, F_OK) == 0 || starts_with(nic, "eth") || starts_with(nic, "en") ||
         starts_with(nic, "bond");
}

/* Cray MPICH takes no NIC by name, only a policy. NUMA stops the job where a rank's CPUs span
 * nodes. */
static void plan_cxi(struct tps_environment *environment, const struct tps_binding *binding,
                     struct tps_messages *messages) {
  if (binding->bind_cpus && tps_binding_node_of(&binding->cpus) >= 0)
    set_unless_set(environment, "MPICH_OFI_NIC_POLICY", "NUMA", messages);
}

void tps_nic_plan(struct tps_environment *environment, const char *nic,
                  const struct tps_binding *binding, struct tps_messages *messages) {
  if (starts_with(nic, "cxi")) {
    plan_cxi(environment, binding, messages);
    return;
  }
  if (starts_with(nic, "hfi")) {
    tps_note(messages, "%s: its libraries take only adapter numbers, which are not known", nic);
    return;
  }
  struct tps_text name;
  tps_text_init(&name);
  bool has_port = strchr(nic, ':') != NULL;
  tps_text_add(&name, "%s%s", nic, has_port || is_ethernet(nic) ? "" : ":1");
  set_unless_set(environment, "UCX_NET_DEVICES", name.data, messages);
  tps_text_free(&name);
  struct tps_text device;
  tps_text_init(&device);
  tps_text_add(&device, "%.*s", (int)strcspn(nic, ":"), nic);
  set_unless_set(environment, "PSM3_NIC", device.data, messages);
  tps_text_free(&device);
}
