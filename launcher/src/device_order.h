/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The order in which a rank sees the devices of its node, in positions of the view. */
#ifndef TOPOSEAT_LAUNCHER_DEVICE_ORDER_H
#define TOPOSEAT_LAUNCHER_DEVICE_ORDER_H

#include "environment.h"
#include "message.h"
#include "options.h"
#include "view.h"

/* What is wanted, and where the result goes. */
struct tps_visibility {
  const struct tps_placement *placement;
  const struct tps_seat *seat;
  enum tps_mode mode;
  enum tps_ids ids;
  struct tps_environment *environment;
  struct tps_messages *messages;
  const struct tps_seat *const *locals; /* by local rank of the launcher; NULL: as the placement */
  size_t local_count;
  long local_rank; /* of this rank as its launcher numbers it */
  bool must_exist; /* a device that the PCI bus does not have cannot be seen */

  /* Results. */
  const char *variable;   /* that rules visibility, NULL for unknown vendors */
  bool is_seen;           /* it is known which device this rank will use: */
  struct tps_device seen; /* by what is planned, else by the list that it inherits */
  struct tps_text cause;  /* why there can be no list; empty if there is one */
};

/* Positions in `view` in the order this rank is to see them, narrowed to what is visible. NULL with
   a cause if a device that the mode needs is not visible. The caller frees it. */
size_t *tps_device_order(struct tps_visibility *visibility, const struct tps_view *view,
                         size_t *count);

#endif
