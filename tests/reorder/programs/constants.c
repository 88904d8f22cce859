/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Compiled with an mpicc, and OURS(name) as the name in reorder/src/abi.h: that against mpi.h. */
#include ABI_HEADER
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

static int failures;

static void same(const char *what, intptr_t ours, intptr_t real) {
  if (ours != real) {
    printf("%s: %ld, mpi.h has %ld\n", what, (long)ours, (long)real);
    failures += 1;
  }
}

#define SAME(name) same(#name, (intptr_t)OURS(name), (intptr_t)MPI_##name)

int main(void) {
  SAME(COMM_TYPE_SHARED);
  same("MPI_UNDEFINED", -32766, MPI_UNDEFINED);
  same("MPI_SUCCESS", 0, MPI_SUCCESS);
  same("MPI_Status fits", 1, sizeof(MPI_Status) <= 64);
#ifndef OPENMPI_HANDLES
  SAME(COMM_WORLD);
  SAME(COMM_NULL);
  SAME(INT);
  SAME(MIN);
  SAME(INFO_NULL);
  SAME(ERRORS_RETURN);
  same("handles", sizeof(MPI_Comm), sizeof(MPI_Info));
#endif
#ifndef MPICH_HANDLES
  SAME(UNWEIGHTED);
  SAME(WEIGHTS_EMPTY);
#endif
  return failures != 0;
}
