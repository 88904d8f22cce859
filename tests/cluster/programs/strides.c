/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every rank talks to the four that are as far from it as the default has nodes: a plan in other
 * than blocks has much less to send between nodes.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdlib.h>
typedef int (*call)();
static int at(int rank) { return rank < SWAPPED ? 1 - rank : rank; }
static void use_device(int number) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
  int count, device;
  if (((call)dlsym(driver, "cuInit"))(0) != 0 ||
      ((call)dlsym(driver, "cuDeviceGetCount"))(&count) != 0 ||
      ((call)dlsym(driver, "cuDeviceGet"))(&device, number % count) != 0 ||
      ((call)dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context, device) != 0)
    MPI_Abort(MPI_COMM_WORLD, 3);
}
int main(int argc, char **argv) {
  int me, n;
  MPI_Init(&argc, &argv);
  MPI_Comm node;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &me);
  use_device(me);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  enum { BYTES = 1 << 20 };
  char *out = calloc(1, BYTES), *in = calloc(1, BYTES);
  for (int far = 4; far < n; far += 4)
    MPI_Sendrecv(out, BYTES, MPI_BYTE, at((at(me) + far) % n), 0, in, BYTES, MPI_BYTE,
                 at((at(me) + n - far) % n), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  free(out);
  free(in);
  return MPI_Finalize();
}
