/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 1 && system("rm $TOPOSEAT_PROFILE_DIR/rank-1-*.tpsrec") != 0)
    return 4;
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Finalize();
}
