/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <mpi.h>
int f(void) { return MPI_Init(0, 0); }
