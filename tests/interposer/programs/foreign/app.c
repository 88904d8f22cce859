/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sends 3 x 5 doubles and 1 x 7 ints to itself, and reduces 4 ints in place. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
  double data[5] = {0};
  int codes = MPI_Init(&argc, &argv);
  for (int i = 0; i < 3; ++i)
    codes += MPI_Send(data, 5, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
  codes += MPI_Send(data, 7, MPI_INT, 0, 0, MPI_COMM_WORLD);
  codes += MPI_Allreduce(MPI_IN_PLACE, data, 4, MPI_INT, 1, MPI_COMM_WORLD);
  codes += MPI_Finalize();
  puts(codes == 0 ? "good" : "bad");
  return codes;
}
