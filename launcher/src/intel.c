/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ZE_AFFINITY_MASK selects devices but does not order them: the driver lists what is selected in
   its own order (Level Zero specification, "Affinity Mask"), in PCI order with
   ZE_ENABLE_PCI_ID_DEVICE_ORDER=1. An order that is not ascending cannot be had this way. Numbers
   are those of the flat hierarchy, in which a tile is a device. */
#include "vendors.h"

#include <stdlib.h>
#include <string.h>

static bool is_ascending(const size_t *order, size_t count) {
  for (size_t i = 1; i < count; i++)
    if (order[i] < order[i - 1])
      return false;
  return true;
}

static void set_variables(struct tps_visibility *visibility, const struct tps_view *view,
                          const size_t *order, size_t count, const char *hierarchy) {
  struct tps_text list;
  tps_text_init(&list);
  tps_view_format(view, order, count, false, &list);
  tps_environment_set(visibility->environment, "ZE_AFFINITY_MASK", list.data);
  tps_environment_set(visibility->environment, "ZE_FLAT_DEVICE_HIERARCHY",
                      hierarchy == NULL ? "FLAT" : hierarchy);
  tps_environment_set(visibility->environment, "ZE_ENABLE_PCI_ID_DEVICE_ORDER", "1");
  tps_text_free(&list);
}

static int compare_positions(const void *first, const void *second) {
  const size_t *a = first, *b = second;
  return (*a > *b) - (*a < *b);
}

bool tps_intel_view(struct tps_visibility *visibility, struct tps_view *view) {
  const char *hierarchy = tps_environment_get(visibility->environment, "ZE_FLAT_DEVICE_HIERARCHY");
  if (hierarchy != NULL && *hierarchy != '\0' && strcmp(hierarchy, "FLAT") != 0 &&
      strcmp(hierarchy, "COMBINED") != 0) {
    tps_refuse(visibility->messages, "; device variables are left alone",
               "ZE_FLAT_DEVICE_HIERARCHY=%.40s, and the placement counts tiles (FLAT)", hierarchy);
    return false;
  }
  const char *inherited = tps_environment_get(visibility->environment, "ZE_AFFINITY_MASK");
  if (inherited != NULL && *inherited != '\0' &&
      !tps_view_narrow(view, "ZE_AFFINITY_MASK", inherited, false, visibility->messages))
    return false;
  if (view->listed != NULL)
    qsort(view->listed, view->listed_count, sizeof *view->listed, compare_positions);
  return true;
}

bool tps_intel_plan(struct tps_visibility *visibility, struct tps_view *view) {
  const char *hierarchy = tps_environment_get(visibility->environment, "ZE_FLAT_DEVICE_HIERARCHY");
  size_t count = 0;
  size_t *order = tps_device_order(visibility, view, &count);
  if (order == NULL)
    return false;
  bool possible = is_ascending(order, count);
  if (possible)
    set_variables(visibility, view, order, count, hierarchy);
  else
    tps_text_add(&visibility->cause,
                 "the Level Zero driver does not follow the order of ZE_AFFINITY_MASK: %s is not "
                 "possible, use --visibility mask",
                 tps_mode_name(visibility->mode));
  free(order);
  return possible;
}
