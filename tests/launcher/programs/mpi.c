/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An application and its MPI library, bound as an extension module binds it: the library is
 * private.
 */
#include <stdio.h>
int PMPI_Finalize(void) { return puts("finalized") < 0; }
int MPI_Finalize(void) { return PMPI_Finalize(); }
