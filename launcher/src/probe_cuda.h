/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the CUDA driver says of this process, if the program has loaded it. */
#ifndef TOPOSEAT_LAUNCHER_PROBE_CUDA_H
#define TOPOSEAT_LAUNCHER_PROBE_CUDA_H

#include "report.h"

#include <stdbool.h>

/* Adds "cuda", a word about the driver, and if it answered "cuda_devices", those that are in use,
   and "cuda_list", all that it took from the program's list. True if any is in use. `elsewhere`:
   the planned device, which may be NULL, is not in its list, or others are in use and it is not. */
bool tps_probe_add_cuda(struct tps_report *report, const char *planned, bool *elsewhere);

#endif
