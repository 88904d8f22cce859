/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The devices of a host as this process can see them, and lists of them as drivers read lists. */
#ifndef TOPOSEAT_LAUNCHER_VIEW_H
#define TOPOSEAT_LAUNCHER_VIEW_H

#include "message.h"
#include "options.h"
#include "placement.h"

#include <stdint.h>

/* In `listed`: a device that the placement does not know. */
#define TPS_FOREIGN SIZE_MAX

struct tps_view {
  struct tps_device *devices; /* in index order */
  long *numbers;              /* what the driver calls each; -1: this process cannot reach it */
  bool *visible;              /* numbered and in the inherited list, if there is one */
  size_t count;
  size_t enumerated;    /* devices the driver counts, also those the placement does not know */
  bool uuids_inherited; /* the inherited list names devices by UUID */
  size_t *listed;       /* positions in the order of the inherited list, NULL without one */
  size_t listed_count;
  char (*uuids)[64]; /* those that the driver tells and the placement does not; NULL without */
};

/* All devices of `host` in the placement, numbered by position, all visible. */
void tps_view_init(struct tps_view *view, const struct tps_placement *placement, const char *host);
void tps_view_free(struct tps_view *view);

/* Position of the device of `seat`, or -1 if the host's devices do not hold it. */
long tps_view_find(const struct tps_view *view, const struct tps_device *device);

/* Narrows `visible` to the devices of an inherited list. With `stops` an entry that names no device
   hides itself and all that follow (CUDA); else it makes the list unusable. False with a warning if
   the list cannot be understood: then nobody may build upon it. */
bool tps_view_narrow(struct tps_view *view, const char *variable, const char *list, bool stops,
                     struct tps_messages *messages);

/* Devices that are visible, as a list for people. */
void tps_view_describe(const struct tps_view *view, struct tps_text *text);

/* The list of the devices at `order`, by UUID or number. False if a UUID is not known. */
bool tps_view_format(const struct tps_view *view, const size_t *order, size_t count, bool uuids,
                     struct tps_text *list);

/* A device in words: PCI bus id, else UUID, else index. */
const char *tps_device_name(const struct tps_device *device, char *buffer, size_t size);

#endif
