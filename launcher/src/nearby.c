/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "nearby.h"

#include "cpu_list.h"
#include "system_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct tps_seat *seat_on(const struct tps_placement *placement, const char *host,
                                      unsigned long device) {
  for (size_t i = 0; i < placement->seat_count; i++) {
    const struct tps_seat *seat = &placement->seats[i];
    if (strcmp(seat->host, host) == 0 && seat->device.index == device)
      return seat;
  }
  return NULL;
}

/* The seat that the kernel's account of a PCI device makes; false if there is none. */
static bool make_seat(struct tps_nearby *nearby, const char *host,
                      const struct tps_device *device) {
  char path[96], node[16];
  nearby->made = (struct tps_seat){.host = host, .device = *device, .memory_node = -1};
  if (device->pci == NULL)
    return false;
  snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/local_cpulist", device->pci);
  if (!tps_system_read(path, nearby->cpus, sizeof nearby->cpus) ||
      !tps_cpus_parse(NULL, nearby->cpus))
    return false;
  nearby->made.cpus = nearby->cpus;
  snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", device->pci);
  unsigned long number;
  if (tps_system_read(path, node, sizeof node) && tps_parse_number(node, 1023, &number))
    nearby->made.memory_node = (long)number;
  return true;
}

void tps_nearby_find(struct tps_nearby *nearby, const struct tps_visibility *visibility) {
  const struct tps_seat *own = visibility->seat;
  const struct tps_device *seen = &visibility->seen;
  char used[32], placed[32];
  nearby->seat = own;
  if (visibility->variable == NULL || (visibility->is_seen && seen->index == own->device.index))
    return;
  nearby->seat = NULL;
  if (!visibility->is_seen) {
    if (visibility->messages->refusals == 0) /* else it was said why */
      tps_warn(visibility->messages,
               "it is not known which device this rank will use: its CPUs, memory and NIC are left "
               "alone");
    return;
  }
  nearby->seat = seat_on(visibility->placement, own->host, seen->index);
  if (nearby->seat == NULL && make_seat(nearby, own->host, seen))
    nearby->seat = &nearby->made;
  const char *what = tps_device_name(seen, used, sizeof used);
  const char *instead = tps_device_name(&own->device, placed, sizeof placed);
  if (nearby->seat == NULL)
    tps_note(visibility->messages,
             "this rank will use device %s, not %s: which CPUs are near it is not known", what,
             instead);
  else if (visibility->mode == TPS_CPU_ONLY)
    tps_warn(visibility->messages,
             "cpu-only moves no devices: this rank will use device %s, not %s", what, instead);
  else
    tps_note(visibility->messages,
             "this rank will use device %s, not %s, and gets the CPUs, memory and NIC of that",
             what, instead);
}
