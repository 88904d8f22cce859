/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The programs that a rank starts: which of them will not have the rank probe. */
#ifndef TOPOSEAT_LAUNCHER_PROBE_PROGRAMS_H
#define TOPOSEAT_LAUNCHER_PROBE_PROGRAMS_H

/* From now on `unheard` is told of each program that a process with the probe is about to become or
   to start, and whose environment has lost the probe or what it needs to speak. It is called in
   forks and vforks too. A program that is linked statically loads no driver either: it is not
   meant. What starts programs without the C library is not seen. */
void tps_probe_watch_programs(void (*unheard)(const char *program));

#endif
