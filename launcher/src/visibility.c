/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "visibility.h"

#include "emulated.h"
#include "system_tree.h"
#include "vendors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
