/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "device_order.h"

#include <stdlib.h>

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

size_t *tps_device_order(struct tps_visibility *visibility, const struct tps_view *view,
                         size_t *count) {
  struct order order = {.positions = tps_allocate(view->count, sizeof *order.positions)};
  bool complete = visibility->mode == TPS_PERMUTE
                      ? add_all_seats(&order, visibility, view)
                      : add_seat(&order, visibility, view, visibility->seat);
  if (!complete) {
    free(order.positions);
    return NULL;
  }
  if (visibility->mode == TPS_ROTATE)
    for (size_t i = 0; i < view->count; i++)
      if (view->visible[i] && !holds(&order, i))
        order.positions[order.count++] = i;
  *count = order.count;
  return order.positions;
}
