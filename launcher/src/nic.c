/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "nic.h"

#include "system_tree.h"

#include <stdio.h>
#include <string.h>

const char *const tps_nic_variables[] = {"UCX_NET_DEVICES",
                                         "PSM3_NIC",
                                         "MPICH_OFI_NIC_POLICY",
                                         "MPICH_OFI_NIC_MAPPING",
                                         "MPIR_CVAR_CH4_OFI_PREF_NIC",
                                         "I_MPI_MULTIRAIL",
                                         "FI_OPX_HFI_SELECT",
                                         "HFI_UNIT",
                                         "FI_TCP_IFACE",
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
  if (tps_system_exists(path))
    return false;
  snprintf(path, sizeof path, "/sys/class/net/%.64s", nic);
  return tps_system_exists(path) || starts_with(nic, "eth") || starts_with(nic, "en") ||
         starts_with(nic, "bond");
}

/* ---- Slingshot: libraries count adapters ---- */

enum { MAX_ADAPTERS = 10 }; /* one digit: cxi10 sorts before cxi2 */

/* The number of a Slingshot adapter (cxi0) or of its interface (hsn0, hsi0); -1: neither. */
static int slingshot_number(const char *nic) {
  static const char *const names[] = {"cxi", "hsn", "hsi"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (starts_with(nic, names[i]) && nic[3] >= '0' && nic[3] <= '9' && nic[4] == '\0')
      return nic[3] - '0';
  return -1;
}

/* "0:0,1; 1:2,3": adapters and their local ranks, for all of `own`'s node. False where one is not
   known. */
static bool add_mapping(struct tps_text *text, const struct tps_placement *placement,
                        const struct tps_seat *own, int number) {
  struct tps_text ranks[MAX_ADAPTERS];
  bool is_known = true;
  for (int i = 0; i < MAX_ADAPTERS; i++)
    tps_text_init(&ranks[i]);
  for (size_t i = 0; i < placement->seat_count && is_known; i++) {
    const struct tps_seat *seat = &placement->seats[i];
    if (strcmp(seat->host, own->host) != 0)
      continue;
    int of_seat = seat == own ? number : seat->nic == NULL ? -1 : slingshot_number(seat->nic);
    is_known = of_seat >= 0;
    if (is_known)
      tps_text_add(&ranks[of_seat], "%s%lu", ranks[of_seat].length == 0 ? "" : ",",
                   seat->local_rank);
  }
  for (int i = 0; i < MAX_ADAPTERS; i++) {
    if (is_known && ranks[i].length > 0)
      tps_text_add(text, "%s%d:%s", text->length == 0 ? "" : "; ", i, ranks[i].data);
    tps_text_free(&ranks[i]);
  }
  return is_known;
}

enum link { LINK_UNTOLD, LINK_UP, LINK_DOWN };

static enum link link_of(int number) {
  char path[64], state[32];
  snprintf(path, sizeof path, "/sys/class/net/hsn%d/operstate", number);
  if (!tps_system_read(path, state, sizeof state))
    return LINK_UNTOLD;
  return strcmp(state, "up") == 0 ? LINK_UP : LINK_DOWN;
}

/* How many adapters in a row are up, from the first: libraries may leave out those that are not. */
static int count_up(void) {
  int count = 0;
  while (count < MAX_ADAPTERS && link_of(count) == LINK_UP)
    count++;
  return count;
}

static bool any_is_down(void) {
  for (int i = 0; i < MAX_ADAPTERS; i++)
    if (link_of(i) == LINK_DOWN)
      return true;
  return false;
}

/* Cray MPICH takes a table of the node, if the user has no other wish, and else a policy. That by
   NUMA node stops the job where a rank's CPUs span nodes. */
static void plan_cray(struct tps_environment *environment, const struct tps_nic_seat *seat,
                      int number, struct tps_messages *messages) {
  bool is_free = tps_environment_get(environment, "MPICH_OFI_NIC_POLICY") == NULL &&
                 tps_environment_get(environment, "MPICH_OFI_NIC_MAPPING") == NULL &&
                 tps_environment_get(environment, "MPICH_OFI_NUM_NICS") == NULL;
  struct tps_text text;
  tps_text_init(&text);
  if (is_free && !any_is_down() && seat->own != NULL &&
      add_mapping(&text, seat->placement, seat->own, number)) {
    tps_environment_set(environment, "MPICH_OFI_NIC_POLICY", "USER");
    tps_environment_set(environment, "MPICH_OFI_NIC_MAPPING", text.data);
  } else if (seat->binding->bind_cpus && tps_binding_node_of(&seat->binding->cpus) >= 0) {
    set_unless_set(environment, "MPICH_OFI_NIC_POLICY", "NUMA", messages);
  }
  tps_text_free(&text);
}

/* Intel MPI takes no adapter, only that it pins each rank to the nearest. */
static void plan_slingshot(struct tps_environment *environment, const struct tps_nic_seat *seat,
                           int number, struct tps_messages *messages) {
  plan_cray(environment, seat, number, messages);
  if (number < count_up()) {
    char digits[16];
    snprintf(digits, sizeof digits, "%d", number);
    set_unless_set(environment, "MPIR_CVAR_CH4_OFI_PREF_NIC", digits, messages);
  }
  set_unless_set(environment, "I_MPI_MULTIRAIL", "1", messages);
}

/* ---- Omni-Path: by the number in the name ---- */

/* The unit of hfi1_0, or of its port hfi1_0:1. OPX and PSM2 open the unit by this very name; of an
   adapter that is called otherwise they find none. */
static bool find_unit(const char *nic, char *unit, size_t size) {
  static const char start[] = "hfi1_";
  const char *digits = nic + sizeof start - 1;
  if (!starts_with(nic, start))
    return false;
  size_t length = strspn(digits, "0123456789");
  if (length == 0 || (digits[length] != '\0' && digits[length] != ':'))
    return false;
  char path[128];
  snprintf(unit, size, "%.*s", (int)length, digits);
  snprintf(path, sizeof path, "/sys/class/infiniband/%s%s", start, unit);
  return tps_system_exists(path);
}

static void plan_omni_path(struct tps_environment *environment, const char *unit,
                           struct tps_messages *messages) {
  set_unless_set(environment, "FI_OPX_HFI_SELECT", unit, messages);
  set_unless_set(environment, "HFI_UNIT", unit, messages);
}

/* ---- the others: by name ---- */

/* Whether all ranks of the node have this interface: ranks on several would have to reach each
   other through addresses of several networks, or have their packets dropped within one. */
static bool is_only_interface(const struct tps_nic_seat *seat) {
  char path[128];
  snprintf(path, sizeof path, "/sys/class/net/%.64s", seat->nic);
  if (seat->own == NULL || !tps_system_exists(path))
    return false;
  for (size_t i = 0; i < seat->placement->seat_count; i++) {
    const struct tps_seat *other = &seat->placement->seats[i];
    if (strcmp(other->host, seat->own->host) == 0 &&
        (other->nic == NULL || strcmp(other->nic, seat->nic) != 0))
      return false;
  }
  return true;
}

static void plan_named(struct tps_environment *environment, const struct tps_nic_seat *seat,
                       struct tps_messages *messages) {
  const char *nic = seat->nic;
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
  if (is_ethernet(nic) && is_only_interface(seat))
    set_unless_set(environment, "FI_TCP_IFACE", nic, messages);
}

/* Omni-Path by another name, EFA, Slingshot beyond what is counted, nvidia-smi's labels (NIC0): UCX
   drives none of them, and would find no device at all. */
static bool has_no_word(const char *nic) {
  return starts_with(nic, "hfi") || starts_with(nic, "opa") || starts_with(nic, "rdmap") ||
         starts_with(nic, "efa") || starts_with(nic, "cxi") || starts_with(nic, "NIC");
}

void tps_nic_plan(struct tps_environment *environment, const struct tps_nic_seat *seat,
                  struct tps_messages *messages) {
  int number = slingshot_number(seat->nic);
  char unit[16];
  if (number >= 0)
    plan_slingshot(environment, seat, number, messages);
  else if (find_unit(seat->nic, unit, sizeof unit))
    plan_omni_path(environment, unit, messages);
  else if (has_no_word(seat->nic))
    tps_note(messages, "%s: no variable names it to its libraries, which choose themselves",
             seat->nic);
  else
    plan_named(environment, seat, messages);
}
