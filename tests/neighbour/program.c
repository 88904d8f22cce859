/* Two ranks that send each other a known amount, once they are told to go on. */
#include <mpi.h>
#include <unistd.h>
int main(int argc, char **argv) {
  static char data[100000];
  int rank;
  while (access(argv[argc - 1], F_OK) != 0)
    usleep(10000);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 10; i++)
    MPI_Sendrecv_replace(data, sizeof data, MPI_BYTE, 1 - rank, 0, 1 - rank, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
  return MPI_Finalize();
}
