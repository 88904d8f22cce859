/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "visibility.h"

#include "emulated.h"
#include "system_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the order ---- */

struct order {
  size_t *positions;
  size_t count;
};

static bool holds(const struct order *order, size_t position) {
  for (size_t i = 0; i < order->count; i++)
    if (order->positions[i] == position)
      return true;
  return false;
}

/* Appends the seat's device; false with a cause if this rank cannot have it. */
static bool add_seat(struct order *order, struct tps_visibility *visibility,
                     const struct tps_view *view, const struct tps_seat *seat) {
  char buffer[32];
  const char *name = tps_device_name(&seat->device, buffer, sizeof buffer);
  long position = tps_view_find(view, &seat->device);
  if (position < 0 || holds(order, (size_t)position)) {
    tps_text_add(&visibility->cause, "the placement contradicts itself about device %s", name);
    return false;
  }
  if (!view->visible[position]) {
    struct tps_text visible;
    tps_text_init(&visible);
    tps_view_describe(view, &visible);
    tps_text_add(&visibility->cause, "the placement needs device %s, and this process sees %s",
                 name, visible.data);
    tps_text_free(&visible);
    return false;
  }
  order->positions[order->count++] = (size_t)position;
  return true;
}

/* The devices of local ranks 0, 1, ... of the node. */
static bool add_all_seats(struct order *order, struct tps_visibility *visibility,
                          const struct tps_view *view) {
  const char *host = visibility->seat->host;
  bool renumbered = visibility->locals != NULL;
  size_t seats =
      renumbered ? visibility->local_count : tps_placement_count_on(visibility->placement, host);
  for (size_t local_rank = 0; local_rank < seats; local_rank++) {
    const struct tps_seat *seat =
        renumbered ? visibility->locals[local_rank]
                   : tps_placement_find_local(visibility->placement, host, local_rank);
    if (seat == NULL) {
      tps_text_add(&visibility->cause, "the placement has no local rank %zu on host %s", local_rank,
                   host);
      return false;
    }
    if (!add_seat(order, visibility, view, seat))
      return false;
  }
  return true;
}

size_t *tps_visibility_order(struct tps_visibility *visibility, const struct tps_view *view,
                             size_t *count) {
  struct order order = {.positions = tps_allocate(view->count, sizeof *order.positions)};
  bool complete = visibility->mode == TPS_PERMUTE
                      ? add_all_seats(&order, visibility, view)
                      : add_seat(&order, visibility, view, visibility->seat);
  if (!complete) {
    free(order.positions);
    return NULL;
  }
  if (visibility->mode != TPS_MASK)
    for (size_t i = 0; i < view->count; i++)
      if (view->visible[i] && !holds(&order, i))
        order.positions[order.count++] = i;
  *count = order.count;
  return order.positions;
}

/* ---- the device that the program will use ---- */

static bool is_on_bus(const struct tps_device *device) {
  char path[64];
  snprintf(path, sizeof path, "/sys/bus/pci/devices/%s", device->pci == NULL ? "" : device->pci);
  return tps_system_exists(path);
}

/* Devices that the PCI bus does not have; nothing is said where it cannot be read, as in WSL. */
static void hide_absent(struct tps_view *view) {
  bool emulated = tps_is_emulated();
  if (!emulated && (!tps_system_exists("/sys/bus/pci/devices") || tps_system_exists("/dev/dxg")))
    return;
  for (size_t i = 0; i < view->count; i++) {
    const struct tps_device *device = &view->devices[i];
    bool exists = emulated ? tps_emulated_has(device) : is_on_bus(device);
    view->visible[i] = view->visible[i] && exists;
  }
}

/* The positions of the devices that this process inherits, in the order in which the driver counts
   them; VIEW_FOREIGN for one that the placement does not know. */
static size_t inherited(const struct tps_view *view, size_t *positions) {
  size_t count = 0;
  for (size_t i = 0; view->listed != NULL && i < view->listed_count; i++)
    if (view->listed[i] == TPS_FOREIGN || view->visible[view->listed[i]])
      positions[count++] = view->listed[i];
  for (size_t i = 0; view->listed == NULL && i < view->count; i++)
    if (view->visible[i])
      positions[count++] = i;
  return count;
}

/* Programs take the device of their local rank, or the only one. */
static void find_inherited(struct tps_visibility *visibility, const struct tps_view *view) {
  size_t *positions = tps_allocate(view->count + view->listed_count, sizeof *positions);
  size_t count = inherited(view, positions);
  bool first = count == 1 || visibility->mode == TPS_MASK || visibility->mode == TPS_ROTATE;
  long place = first ? 0 : visibility->local_rank;
  visibility->is_seen = place >= 0 && (size_t)place < count && positions[place] != TPS_FOREIGN;
  if (visibility->is_seen)
    visibility->seen = view->devices[positions[place]];
  free(positions);
}

/* Where no list could be planned: whether the rank has its device all the same. */
static void tell_cause(const struct tps_visibility *visibility) {
  static const char left[] = "; device variables are left alone";
  if (visibility->cause.length == 0)
    return;
  if (visibility->is_seen && visibility->seen.index == visibility->seat->device.index)
    tps_leave_out(visibility->messages, "peers", "%s%s; this rank has its own device all the same",
                  visibility->cause.data, left);
  else
    tps_refuse(visibility->messages, left, "%s", visibility->cause.data);
}

/* ---- the vendors ---- */

static void clear(struct tps_environment *environment, const char *const *names) {
  for (; *names != NULL; names++)
    tps_environment_unset(environment, *names);
}

void tps_visibility_plan(struct tps_visibility *visibility) {
  static const char *const not_nvidia[] = {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                           "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK", NULL};
  static const char *const not_rocr[] = {"HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
                                         "CUDA_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", NULL};
  static const char *const not_intel[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                          "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", NULL};
  static const struct {
    const char *variable;
    bool (*view)(struct tps_visibility *, struct tps_view *);
    bool (*plan)(struct tps_visibility *, struct tps_view *);
    const char *const *others;
  } vendors[] = {
      [TPS_VENDOR_UNKNOWN] = {NULL, NULL, NULL, NULL},
      [TPS_NVIDIA] = {"CUDA_VISIBLE_DEVICES", tps_nvidia_view, tps_nvidia_plan, not_nvidia},
      [TPS_AMD] = {"ROCR_VISIBLE_DEVICES", tps_amd_view, tps_amd_plan, not_rocr},
      [TPS_INTEL] = {"ZE_AFFINITY_MASK", tps_intel_view, tps_intel_plan, not_intel}};
  enum tps_vendor vendor = visibility->placement->vendor;
  visibility->variable = vendors[vendor].variable;
  visibility->is_seen = false;
  tps_text_init(&visibility->cause);
  bool wanted = visibility->mode != TPS_CPU_ONLY;
  if (vendor == TPS_VENDOR_UNKNOWN) {
    if (wanted)
      tps_note(visibility->messages,
               "the placement names no vendor: device variables are left alone, CPUs are bound");
    return;
  }
  if (visibility->mode == TPS_ROTATE)
    tps_note(visibility->messages, "rotate gives every rank another device list: RCCL and programs "
                                   "that exchange device numbers can fail with it");
  struct tps_view view;
  tps_view_init(&view, visibility->placement, visibility->seat->host);
  bool usable = vendors[vendor].view(visibility, &view);
  if (visibility->must_exist)
    hide_absent(&view);
  bool planned = usable && wanted && vendors[vendor].plan(visibility, &view);
  if (planned) {
    visibility->is_seen = true;
    visibility->seen = visibility->seat->device;
  } else if (usable) {
    find_inherited(visibility, &view);
  }
  tell_cause(visibility);
  tps_text_free(&visibility->cause);
  visibility->seen.uuid = NULL; /* it may be the view's */
  tps_view_free(&view);
  if (planned)
    clear(visibility->environment, vendors[vendor].others);
}
