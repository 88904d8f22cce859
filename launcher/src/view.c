/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "text.h"

void tps_view_init(struct tps_view *view, const struct tps_placement *placement, const char *host) {
  *view = (struct tps_view){0};
  view->devices = tps_placement_devices_on(placement, host, &view->count);
  view->numbers = tps_allocate(view->count, sizeof *view->numbers);
  view->visible = tps_allocate(view->count, sizeof *view->visible);
  view->enumerated = view->count;
  for (size_t i = 0; i < view->count; i++) {
    view->numbers[i] = (long)i;
    view->visible[i] = true;
  }
}

void tps_view_free(struct tps_view *view) {
  free(view->devices);
  free(view->numbers);
  free(view->visible);
  free(view->listed);
  free(view->uuids);
  *view = (struct tps_view){0};
}

static bool differ(const char *first, const char *second) {
  return first != NULL && second != NULL && strcasecmp(first, second) != 0;
}

long tps_view_find(const struct tps_view *view, const struct tps_device *device) {
  for (size_t i = 0; i < view->count; i++) {
    const struct tps_device *own = &view->devices[i];
    if (own->index == device->index)
      return differ(own->pci, device->pci) || differ(own->uuid, device->uuid) ? -1 : (long)i;
  }
  return -1;
}

const char *tps_device_name(const struct tps_device *device, char *buffer, size_t size) {
  if (device->uuid != NULL && strncasecmp(device->uuid, "MIG", 3) == 0)
    return device->uuid; /* slices share their PCI bus id */
  if (device->pci != NULL)
    return device->pci;
  if (device->uuid != NULL)
    return device->uuid;
  snprintf(buffer, size, "%lu", device->index);
  return buffer;
}

/* ---- inherited lists ---- */

enum lookup { FOUND, FOREIGN, INVALID, UNKNOWN };

static enum lookup look_up_number(const struct tps_view *view, const char *entry, size_t *found) {
  unsigned long number;
  if (!tps_parse_number(entry, 1000000, &number) || number >= view->enumerated)
    return INVALID;
  for (size_t i = 0; i < view->count; i++) {
    if (view->numbers[i] == (long)number) {
      *found = i;
      return FOUND;
    }
  }
  return FOREIGN; /* a device the driver counts and the placement does not know */
}

/* A UUID or the start of one that only one device has. */
static enum lookup look_up_uuid(const struct tps_view *view, const char *entry, size_t *found) {
  size_t matches = 0, unknown = 0, of_kind = 0;
  for (size_t i = 0; i < view->count; i++) {
    const char *uuid = view->devices[i].uuid;
    if (uuid == NULL) {
      unknown++;
      continue;
    }
    of_kind += strncasecmp(uuid, entry, 4) == 0;
    if (strncasecmp(uuid, entry, strlen(entry)) == 0) {
      matches++;
      *found = i;
    }
  }
  if (matches == 1)
    return FOUND;
  if (matches > 1)
    return INVALID;
  /* A slice of a GPU that the placement knows as a whole. */
  return unknown > 0 || of_kind == 0 || view->enumerated > view->count ? UNKNOWN : INVALID;
}

static bool is_uuid(const char *entry) {
  return strncasecmp(entry, "GPU-", 4) == 0 || strncasecmp(entry, "MIG-", 4) == 0;
}

/* Marks what one entry names. False: the list ends here; `usable` says whether it can be used. */
static bool read_entry(struct tps_view *view, const char *entry, bool stops, bool *listed,
                       const char *variable, struct tps_messages *messages, bool *usable) {
  size_t found = 0;
  bool by_uuid = is_uuid(entry);
  enum lookup result =
      by_uuid ? look_up_uuid(view, entry, &found) : look_up_number(view, entry, &found);
  view->uuids_inherited |= by_uuid;
  if (result == INVALID && stops)
    return false;
  if (result == INVALID || result == UNKNOWN) {
    tps_refuse(messages, NULL, "%s: '%.60s' is none of the devices in the placement", variable,
               entry);
    *usable = false;
    return false;
  }
  if (result == FOUND && listed[found]) {
    tps_refuse(messages, NULL, "%s names device %.60s twice", variable, entry);
    *usable = false;
    return false;
  }
  if (result == FOUND)
    listed[found] = true;
  view->listed[view->listed_count++] = result == FOUND ? found : TPS_FOREIGN;
  return true;
}

bool tps_view_narrow(struct tps_view *view, const char *variable, const char *list, bool stops,
                     struct tps_messages *messages) {
  char *copy = tps_copy_string(list);
  bool *listed = tps_allocate(view->count, sizeof *listed);
  bool usable = true;
  size_t capacity = 1;
  for (const char *at = list; *at != '\0'; at++)
    capacity += *at == ',';
  free(view->listed);
  view->listed = tps_allocate(capacity, sizeof *view->listed);
  view->listed_count = 0;
  char *next = *tps_trim(copy) == '\0' ? NULL : copy;
  while (next != NULL) {
    char *comma = strchr(next, ',');
    if (comma != NULL)
      *comma = '\0';
    if (!read_entry(view, tps_trim(next), stops, listed, variable, messages, &usable))
      break;
    next = comma == NULL ? NULL : comma + 1;
  }
  for (size_t i = 0; i < view->count; i++)
    view->visible[i] = view->visible[i] && listed[i];
  free(listed);
  free(copy);
  return usable;
}

/* ---- lists to hand out ---- */

void tps_view_describe(const struct tps_view *view, struct tps_text *text) {
  char buffer[32];
  const char *separator = "";
  for (size_t i = 0; i < view->count; i++) {
    if (!view->visible[i])
      continue;
    tps_text_add(text, "%s%s", separator,
                 tps_device_name(&view->devices[i], buffer, sizeof buffer));
    separator = ", ";
  }
  if (*separator == '\0')
    tps_text_add(text, "no device");
  else
    tps_text_add(text, " only");
}

bool tps_view_format(const struct tps_view *view, const size_t *order, size_t count, bool uuids,
                     struct tps_text *list) {
  for (size_t i = 0; i < count; i++) {
    const struct tps_device *device = &view->devices[order[i]];
    const char *separator = i == 0 ? "" : ",";
    if (!uuids)
      tps_text_add(list, "%s%ld", separator, view->numbers[order[i]]);
    else if (device->uuid != NULL)
      tps_text_add(list, "%s%s", separator, device->uuid);
    else
      return false;
  }
  return true;
}
