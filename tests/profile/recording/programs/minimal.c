/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <mpi.h>
int main(int c, char **v) {
  MPI_Init(&c, &v);
  return MPI_Finalize();
}
