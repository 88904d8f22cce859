/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* ROCR_VISIBLE_DEVICES rules all runtimes; HIP_VISIBLE_DEVICES, GPU_DEVICE_ORDINAL and
   CUDA_VISIBLE_DEVICES count within it, so that exactly one of them may remain. Indices unless
   UUIDs are inherited or asked for: whether ROCr takes UUIDs differs between versions. */
#include "vendors.h"

#include <stdlib.h>
#include <string.h>

/* A second list on top of ROCR_VISIBLE_DEVICES. Schedulers write the same absolute list into all
   variables; anything else counts within the first list, and is not guessed at. */
static bool narrow_again(const struct tps_visibility *visibility, struct tps_view *view,
                         const char *first) {
  static const char *const names[] = {"HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
                                      "CUDA_VISIBLE_DEVICES"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *list = tps_environment_get(visibility->environment, names[i]);
    if (list == NULL || (first != NULL && strcmp(first, list) == 0))
      continue;
    if (first != NULL) {
      tps_refuse(visibility->messages, "; device variables are left alone",
                 "ROCR_VISIBLE_DEVICES=%.60s and %s=%.60s both restrict the devices", first,
                 names[i], list);
      return false;
    }
    if (!tps_view_narrow(view, names[i], list, false, visibility->messages))
      return false;
    first = list; /* further variables must say the same */
  }
  return true;
}

bool tps_amd_view(struct tps_visibility *visibility, struct tps_view *view) {
  const char *inherited = tps_environment_get(visibility->environment, "ROCR_VISIBLE_DEVICES");
  for (size_t i = 0; i < view->count; i++)
    view->numbers[i] = (long)view->devices[i].index;
  if (view->count > 0)
    view->enumerated = (size_t)view->numbers[view->count - 1] + 1;
  if (inherited != NULL &&
      !tps_view_narrow(view, "ROCR_VISIBLE_DEVICES", inherited, false, visibility->messages))
    return false;
  return narrow_again(visibility, view, inherited);
}

bool tps_amd_plan(struct tps_visibility *visibility, struct tps_view *view) {
  size_t count = 0;
  size_t *order = tps_device_order(visibility, view, &count);
  if (order == NULL)
    return false;
  bool uuids =
      visibility->ids == TPS_IDS_UUID || (visibility->ids == TPS_IDS_AUTO && view->uuids_inherited);
  struct tps_text list;
  tps_text_init(&list);
  bool known = tps_view_format(view, order, count, uuids, &list);
  if (known)
    tps_environment_set(visibility->environment, "ROCR_VISIBLE_DEVICES", list.data);
  else
    tps_text_add(&visibility->cause,
                 "the placement has no UUIDs, which ROCR_VISIBLE_DEVICES needs here");
  tps_text_free(&list);
  free(order);
  return known;
}
