/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is particular to a vendor: how its driver numbers devices, and the variables that list them. */
#ifndef TOPOSEAT_LAUNCHER_VENDORS_H
#define TOPOSEAT_LAUNCHER_VENDORS_H

#include "device_order.h"

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
