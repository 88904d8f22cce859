/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Takes devices before MPI_Init and before MPI_Comm_split_type, and after that sleeps or ends. */
#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *driver;
static void call(const char *name, void *first, int second) {
  void *symbol = dlsym(driver, name);
  int (*function)(void *, int);
  memcpy(&function, &symbol, sizeof function);
  function(first, second);
}
static void take(int ordinal) {
  int device;
  void *context;
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  call("cuInit", NULL, 0);
  call("cuDeviceGet", &device, ordinal);
  call("cuDevicePrimaryCtxRetain", &context, device);
}
static void save(int number) {
  (void)number;
  sleep(1);
  puts("saved");
  fflush(stdout);
  _exit(0);
}
int main(int argc, char **argv) {
  const char *local = getenv("MPI_LOCALRANKID");
  if (local == NULL)
    local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  int own = local == NULL ? 0 : atoi(local);
  MPI_Comm node;
  if (strcmp(argv[1], "list") == 0)
    setenv("CUDA_VISIBLE_DEVICES", "3", 1);
  if (strcmp(argv[1], "list") == 0)
    take(0);
  if (strcmp(argv[1], "other") == 0)
    take(3 - own);
  if (strcmp(argv[1], "library") == 0)
    take(0);
  signal(SIGTERM, save);
  MPI_Init(&argc, &argv);
  signal(SIGTERM, save);
  if (strcmp(argv[1], "late") == 0)
    take(3 - own);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  if (strcmp(argv[1], "library") == 0)
    take(own);
  if (strcmp(argv[1], "list") != 0)
    sleep(2); /* as long as nobody may look */
  else
    sleep(argc > 2 ? 2 : 60);
  puts("went on");
  return MPI_Finalize();
}
