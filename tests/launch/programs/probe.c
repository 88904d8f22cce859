/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Prints what each rank sees; the arguments say how it ends. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static const char *show(const char *name) {
  const char *value = getenv(name);
  return value == NULL ? "-" : value;
}
int main(int argc, char **argv) {
  int rank, size, code = 0;
  char parent[64] = "", path[64], line[512];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  snprintf(path, sizeof path, "/proc/%d/comm", (int)getppid());
  FILE *file = fopen(path, "r");
  if (file != NULL && fgets(parent, sizeof parent, file) != NULL)
    parent[strcspn(parent, "\n")] = '\0';
  int length =
      snprintf(line, sizeof line, "rank=%d size=%d list=%s order=%s parent=%s pid=%d\n", rank, size,
               show("CUDA_VISIBLE_DEVICES"), show("CUDA_DEVICE_ORDER"), parent, (int)getpid());
  if (write(1, line, (size_t)length) != length)
    return 99;
  MPI_Barrier(MPI_COMM_WORLD);
  if (argc > 1 && strcmp(argv[1], "exit") == 0)
    code = atoi(argv[2]);
  if (argc > 1 && strcmp(argv[1], "raise") == 0 && rank == 1)
    raise(atoi(argv[2]));
  if (argc > 1 && strcmp(argv[1], "sleep") == 0)
    sleep(3600);
  MPI_Finalize();
  return code;
}
