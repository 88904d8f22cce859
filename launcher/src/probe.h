/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* When the rank probe looks at its process. */
#ifndef TOPOSEAT_LAUNCHER_PROBE_H
#define TOPOSEAT_LAUNCHER_PROBE_H

/* Called before MPI_Finalize, and after calls that begin MPI or make a communicator. */
void tps_probe_before_finalize(void);
__attribute__((visibility("default"))) void toposeat_probe_look(const char *when);

#endif
