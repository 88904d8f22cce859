/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which devices a rank sees and in which order (docs: notes on permute, mask, rotate, cpu-only). */
#ifndef TOPOSEAT_LAUNCHER_VISIBILITY_H
#define TOPOSEAT_LAUNCHER_VISIBILITY_H

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

/* Plans the device variables. Where that is not possible it warns and leaves all as they are. */
void tps_visibility_plan(struct tps_visibility *visibility);

/* ---- for the vendors' files ---- */

/* Positions in `view` in the order this rank is to see them, narrowed to what is visible. NULL with
   a cause if a device that the mode needs is not visible. The caller frees it. */
size_t *tps_visibility_order(struct tps_visibility *visibility, const struct tps_view *view,
                             size_t *count);

/* Each numbers the devices and narrows them to those of inherited lists; false with a refusal if
   these cannot be understood. */
bool tps_nvidia_view(struct tps_visibility *visibility, struct tps_view *view);
bool tps_amd_view(struct tps_visibility *visibility, struct tps_view *view);
bool tps_intel_view(struct tps_visibility *visibility, struct tps_view *view);

/* Each returns whether it planned a list. */
bool tps_nvidia_plan(struct tps_visibility *visibility, struct tps_view *view);
bool tps_amd_plan(struct tps_visibility *visibility, struct tps_view *view);
bool tps_intel_plan(struct tps_visibility *visibility, struct tps_view *view);

#endif
