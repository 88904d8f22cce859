/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the rank probe knows of the processes that its own has started. */
#ifndef TOPOSEAT_LAUNCHER_PROBE_CHILDREN_H
#define TOPOSEAT_LAUNCHER_PROBE_CHILDREN_H

#include <stdbool.h>

/* Once, when the library is loaded. `begin_anew` is called in a fork that may speak for itself. */
void tps_probe_watch_children(void (*begin_anew)(void));

/* Whether this process is to be asked: not a fork of one that had a driver, which does not survive
   that, nor one that shares its parent's memory. */
bool tps_probe_may_speak(void);

/* Whether a signal has ended a process for which this one has waited. It could not be asked. */
bool tps_probe_child_was_killed(void);

#endif
