/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "visibility.h"

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

/* Appends the seat's device; false with a warning if this rank cannot have it. */
static bool add_seat(struct order *order, const struct tps_visibility *visibility,
                     const struct tps_view *view, const struct tps_seat *seat) {
  char buffer[32];
  const char *name = tps_device_name(&seat->device, buffer, sizeof buffer);
  long position = tps_view_find(view, &seat->device);
  if (position < 0 || holds(order, (size_t)position)) {
    tps_warn(visibility->messages,
             "the placement contradicts itself about device %s; device variables are left alone",
             name);
    return false;
  }
  if (!view->visible[position]) {
    struct tps_text visible;
    tps_text_init(&visible);
    tps_view_describe(view, &visible);
    tps_refuse(visibility->messages, "; device variables are left alone",
               "the placement needs device %s, and this process sees %s", name, visible.data);
    tps_text_free(&visible);
    return false;
  }
  order->positions[order->count++] = (size_t)position;
  return true;
}

/* The devices of local ranks 0, 1, ... of the node. */
static bool add_all_seats(struct order *order, const struct tps_visibility *visibility,
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
      tps_warn(visibility->messages,
               "the placement has no local rank %zu on host %s; device variables are left alone",
               local_rank, host);
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
    bool (*plan)(struct tps_visibility *, struct tps_view *);
    const char *const *others;
  } vendors[] = {[TPS_VENDOR_UNKNOWN] = {NULL, NULL, NULL},
                 [TPS_NVIDIA] = {"CUDA_VISIBLE_DEVICES", tps_nvidia_plan, not_nvidia},
                 [TPS_AMD] = {"ROCR_VISIBLE_DEVICES", tps_amd_plan, not_rocr},
                 [TPS_INTEL] = {"ZE_AFFINITY_MASK", tps_intel_plan, not_intel}};
  enum tps_vendor vendor = visibility->placement->vendor;
  visibility->variable = vendors[vendor].variable;
  if (visibility->mode == TPS_CPU_ONLY)
    return;
  if (vendor == TPS_VENDOR_UNKNOWN) {
    tps_note(visibility->messages,
             "the placement names no vendor: device variables are left alone, CPUs are bound");
    return;
  }
  if (visibility->mode == TPS_ROTATE)
    tps_note(visibility->messages, "rotate gives every rank another device list: RCCL and programs "
                                   "that exchange device numbers can fail with it");
  struct tps_view view;
  tps_view_init(&view, visibility->placement, visibility->seat->host);
  bool planned = vendors[vendor].plan(visibility, &view);
  tps_view_free(&view);
  if (planned)
    clear(visibility->environment, vendors[vendor].others);
}
