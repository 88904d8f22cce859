/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Local ranks 1 to 4 take device `local % count`; 1 talks with 2 and 3 with 4, bridged to others.
 * With an argument it is ranks from 0 on, and with "managed" they send from the device's memory.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
  static char sent[1000000], received[1000000];
  int rank, size, count, device;
  void *context, *from = sent;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (cuda == NULL || ((int (*)(unsigned))dlsym(cuda, "cuInit"))(0) != 0)
    return 3;
  ((int (*)(int *))dlsym(cuda, "cuDeviceGetCount"))(&count);
  ((int (*)(int *, int))dlsym(cuda, "cuDeviceGet"))(&device, rank % count);
  ((int (*)(void **, unsigned, int))dlsym(cuda, "cuCtxCreate_v2"))(&context, 0, device);
  if (argc > 1 && strcmp(argv[1], "managed") == 0)
    ((int (*)(void **, size_t, int))dlsym(cuda, "cuMemAllocManaged"))(&from, sizeof sent, 1);
  if (argc == 1)
    MPI_Recv(received, 100, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  int peer = argc > 1 ? rank ^ 1 : (rank - 1 ^ 1) + 1;
  if (peer >= size)
    peer = MPI_PROC_NULL;
  MPI_Sendrecv(from, sizeof sent, MPI_BYTE, peer, 1, received, sizeof received, MPI_BYTE, peer, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Finalize();
}
