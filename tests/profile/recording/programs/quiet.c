/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <mpi.h>
#include <stdlib.h>
int main(void) { return getenv("NOBODY_SETS_THIS") ? MPI_Init(0, 0) : 0; }
