/* Where this rank is: host, device by its PCI bus id, size of its node. With an argument it first
   sends that many MiB to each neighbour in a 4 x 4 grid, in messages of 1 MiB. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1 << 20)
#define SIDE 4

typedef int (*call)();

static const char *device_of(int local) {
  static char pci[64] = "-";
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  int count = 0, device = 0;
  void *context;
  if (driver == NULL)
    return pci;
  call init = (call)dlsym(driver, "cuInit"), get_count = (call)dlsym(driver, "cuDeviceGetCount"),
       get = (call)dlsym(driver, "cuDeviceGet"), bus = (call)dlsym(driver, "cuDeviceGetPCIBusId"),
       retain = (call)dlsym(driver, "cuDevicePrimaryCtxRetain");
  if (init(0) == 0 && get_count(&count) == 0 && count > 0 && get(&device, local % count) == 0 &&
      retain(&context, device) == 0)
    bus(pci, (int)sizeof pci, device);
  return pci;
}

static void exchange(int rank, int mebibytes) {
  const int steps[4][2] = {{-1, 0}, {1, 0}, {0, -1}, {0, 1}};
  char *out = calloc(1, MIB), *in = calloc(4, MIB);
  for (int turn = 0; turn < mebibytes; turn++) {
    MPI_Request requests[8];
    int used = 0;
    for (int i = 0; i < 4; i++) {
      int row = rank / SIDE + steps[i][0], column = rank % SIDE + steps[i][1];
      if (row < 0 || row >= SIDE || column < 0 || column >= SIDE)
        continue;
      int other = row * SIDE + column;
      MPI_Irecv(in + (size_t)i * MIB, MIB, MPI_BYTE, other, 0, MPI_COMM_WORLD, &requests[used++]);
      MPI_Isend(out, MIB, MPI_BYTE, other, 0, MPI_COMM_WORLD, &requests[used++]);
    }
    MPI_Waitall(used, requests, MPI_STATUSES_IGNORE);
  }
  free(in);
  free(out);
}

int main(int argc, char **argv) {
  MPI_Comm node;
  int rank, local, size;
  char host[64], line[256];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &local);
  MPI_Comm_size(node, &size);
  gethostname(host, sizeof host);
  if (argc > 1)
    exchange(rank, atoi(argv[1]));
  int length = snprintf(line, sizeof line, "rank=%d host=%s device=%s node=%d\n", rank, host,
                        device_of(local), size);
  if (write(1, line, (size_t)length) != length)
    return 9;
  MPI_Comm_free(&node);
  MPI_Finalize();
  return 0;
}
