/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sends from "device" and from host memory; which is which is declared to the fake driver. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define LENGTH (1 << 20)

int main(int argc, char **argv) {
  typedef int declare_range(void *, size_t, int, char);
  typedef int ask(void);
  /* Before MPI_Init, as a GPU program that picks its device first does. */
  void *driver = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
  char *device = aligned_alloc(4096, LENGTH), *host = aligned_alloc(4096, LENGTH);
  int rank, size;
  if (driver != NULL)
    ((declare_range *)dlsym(driver, "fake_gpu_declare"))(device, LENGTH, 1, 'd');
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  for (int i = 0; i < 3000; ++i) {
    char *from = i % 3 == 0 ? host : device;
    MPI_Sendrecv(from + (i * 64) % (LENGTH - 64), 64, MPI_BYTE, right, 0, host, 64, MPI_BYTE, left,
                 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Allreduce(MPI_IN_PLACE, device, 16, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (driver != NULL && rank == 0)
    printf("%d questions\n", ((ask *)dlsym(driver, "fake_gpu_questions"))());
  MPI_Finalize();
  free(device);
  free(host);
  return 0;
}
