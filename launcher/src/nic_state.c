/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "nic_state.h"

#include "system_tree.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 64, MAX_PORTS = 16 };

static const double SAME_RATE = 0.9; /* as toposeat.model.nics */

static bool read_of(const char *folder, const char *device, const char *rest, char *line,
                    size_t size) {
  char path[256];
  int length = snprintf(path, sizeof path, "%s/%s/%s", folder, device, rest);
  return length < (int)sizeof path && tps_system_read(path, line, size);
}

static bool is_device_of(const char *folder, const char *device) {
  char path[256];
  int length = snprintf(path, sizeof path, "%s/%s", folder, device);
  return length < (int)sizeof path && tps_system_exists(path);
}

/* ---- the InfiniBand class: InfiniBand, RoCE, Omni-Path, EFA ---- */

static const char VERBS[] = "/sys/class/infiniband";

struct port {
  char layer[32]; /* "InfiniBand" or "Ethernet"; empty if it is not told */
  double rate;    /* Gb/s; 0 if it is not told */
  bool told, active;
};

/* state is "4: ACTIVE", rate "200 Gb/sec (4X HDR)". */
static struct port read_port(const char *device, long number) {
  struct port port = {0};
  char line[128], rest[64];
  snprintf(rest, sizeof rest, "ports/%ld/state", number);
  port.told = read_of(VERBS, device, rest, line, sizeof line);
  port.active = port.told && line[0] == '4';
  snprintf(rest, sizeof rest, "ports/%ld/rate", number);
  if (read_of(VERBS, device, rest, line, sizeof line))
    port.rate = strtod(line, NULL);
  snprintf(rest, sizeof rest, "ports/%ld/link_layer", number);
  if (!read_of(VERBS, device, rest, port.layer, sizeof port.layer))
    port.layer[0] = '\0';
  return port;
}

enum { MAX_RATES = 16 };

struct rates {
  double rate[MAX_RATES], carried[MAX_RATES];
  size_t count;
};

static void add_rate(struct rates *rates, double rate) {
  size_t i = 0;
  while (i < rates->count && rates->rate[i] != rate)
    i++;
  if (i == MAX_RATES)
    return;
  if (i == rates->count)
    rates->rate[rates->count++] = rate;
  rates->carried[i] += rate;
}

/* The rate that carries most in all, of equal ones the faster: one NIC that is faster, as for
   storage, makes no other slow. The same in toposeat.model.nics. */
static double usual_of(const struct rates *rates) {
  double usual = 0, most = 0;
  for (size_t i = 0; i < rates->count; i++) {
    bool is_tie = rates->carried[i] >= most && rates->carried[i] <= most;
    if (rates->carried[i] > most || (is_tie && rates->rate[i] > usual)) {
      most = rates->carried[i];
      usual = rates->rate[i];
    }
  }
  return usual;
}

/* The usual rate of the node's active ports of the same kind. */
static double usual_like(const struct port *own) {
  struct tps_text folder;
  tps_text_init(&folder);
  tps_system_path(&folder, VERBS);
  DIR *entries = opendir(folder.data);
  tps_text_free(&folder);
  struct rates rates = {0};
  const struct dirent *entry;
  while (entries != NULL && (entry = readdir(entries)) != NULL) {
    for (long number = 1; entry->d_name[0] != '.' && number <= MAX_PORTS; number++) {
      struct port port = read_port(entry->d_name, number);
      if (!port.told)
        break;
      if (port.active && port.rate > 0 && strcmp(port.layer, own->layer) == 0)
        add_rate(&rates, port.rate);
    }
  }
  if (entries != NULL)
    closedir(entries);
  return usual_of(&rates);
}

static bool is_usable_port(const char *device, long number, struct tps_text *cause) {
  struct port port = read_port(device, number);
  if (port.told && !port.active) {
    tps_text_add(cause, "port %ld of NIC %s is down", number, device);
    return false;
  }
  double usual = usual_like(&port);
  if (port.told && port.rate > 0 && port.rate < SAME_RATE * usual) {
    tps_text_add(cause, "NIC %s runs at %g Gb/s, others of this node at %g Gb/s", device, port.rate,
                 usual);
    return false;
  }
  return true;
}

/* ---- network interfaces ---- */

static const char INTERFACES[] = "/sys/class/net";

static bool is_usable_interface(const char *name, struct tps_text *cause) {
  char state[32];
  /* "unknown" is what drivers say that do not tell, the loopback interface among them. */
  if (read_of(INTERFACES, name, "operstate", state, sizeof state) && strcmp(state, "up") != 0 &&
      strcmp(state, "unknown") != 0) {
    tps_text_add(cause, "NIC %s is down", name);
    return false;
  }
  return true;
}

/* The interface of a Slingshot adapter, cxi0: hsn0. */
static bool is_slingshot(const char *device, char *interface, size_t size) {
  if (strncmp(device, "cxi", 3) != 0)
    return false;
  snprintf(interface, size, "hsn%.16s", device + 3);
  return true;
}

/* ---- both ---- */

bool tps_nic_is_usable(const char *nic, struct tps_text *cause) {
  char device[MAX_NAME + 1], interface[MAX_NAME + 1];
  size_t length = strcspn(nic, ":");
  snprintf(device, sizeof device, "%.*s", (int)(length < MAX_NAME ? length : MAX_NAME), nic);
  long port = nic[length] == ':' ? strtol(nic + length + 1, NULL, 10) : 1;
  if (is_device_of(VERBS, device))
    return is_usable_port(device, port, cause);
  if (is_device_of(INTERFACES, device))
    return is_usable_interface(device, cause);
  if (is_slingshot(device, interface, sizeof interface) && is_device_of(INTERFACES, interface))
    return is_usable_interface(interface, cause);
  if (is_device_of("/sys/class/cxi", device) || !tps_system_exists(INTERFACES))
    return true;
  tps_text_add(cause, "NIC %s is not on this node", device);
  return false;
}
