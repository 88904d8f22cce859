/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two processes, one device each: the second pulls the first one's buffer and clocks it. Prints
   "BYTES/S" per size. Driver API by dlopen, so that the same program runs on real GPUs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cuda_abi.h"

static void *driver;

static void *call(const char *name) {
  void *found = dlsym(driver, name);
  if (!found) {
    fprintf(stderr, "no %s\n", name);
    exit(2);
  }
  return found;
}

#define CALL(name, types, ...)                                                                     \
  do {                                                                                             \
    CUresult result_;                                                                              \
    CUresult(*function_) types;                                                                    \
    void *found_ = call(#name);                                                                    \
    memcpy(&function_, &found_, sizeof found_);                                                    \
    result_ = function_(__VA_ARGS__);                                                              \
    if (result_ != CUDA_SUCCESS) {                                                                 \
      fprintf(stderr, "%s: %d\n", #name, result_);                                                 \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static CUdeviceptr start(int device, size_t bytes) {
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  CUcontext context = NULL;
  CUdeviceptr memory = 0;
  CALL(cuInit, (unsigned), 0);
  CALL(cuDevicePrimaryCtxRetain, (CUcontext *, int), &context, device);
  CALL(cuCtxSetCurrent, (CUcontext), context);
  CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), &memory, bytes);
  return memory;
}

static int owner(int device, size_t bytes, int out) {
  const CUdeviceptr memory = start(device, bytes);
  unsigned char *data = malloc(bytes);
  for (size_t i = 0; i < bytes; ++i)
    data[i] = (unsigned char)(i * 31 + 7);
  CALL(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t), memory, data, bytes);
  CUipcMemHandle handle;
  CALL(cuIpcGetMemHandle, (CUipcMemHandle *, CUdeviceptr), &handle, memory);
  if (write(out, &handle, sizeof handle) != sizeof handle)
    return 1;
  char byte;
  (void)!read(out, &byte, 1);
  free(data);
  return 0;
}

static int puller(int device, size_t bytes, int in) {
  CUipcMemHandle handle;
  const CUdeviceptr mine = start(device, bytes);
  CUdeviceptr theirs = 0;
  if (read(in, &handle, sizeof handle) != sizeof handle)
    return 1;
  CALL(cuIpcOpenMemHandle_v2, (CUdeviceptr *, CUipcMemHandle, unsigned), &theirs, handle, 1);
  double best = 0;
  for (int i = 0; i < 7; ++i) {
    const double begin = seconds();
    CALL(cuMemcpyDtoD_v2, (CUdeviceptr, CUdeviceptr, size_t), mine, theirs, bytes);
    const double rate = (double)bytes / (seconds() - begin);
    best = rate > best ? rate : best;
  }
  unsigned char *data = malloc(bytes);
  CALL(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t), data, mine, bytes);
  for (size_t i = 0; i < bytes; ++i)
    if (data[i] != (unsigned char)(i * 31 + 7)) {
      fprintf(stderr, "byte %zu is wrong\n", i);
      return 1;
    }
  printf("%.4g\n", best);
  free(data);
  (void)!write(in, "x", 1);
  return 0;
}

int main(int count, char **arguments) {
  if (count != 4)
    return 2;
  const int from = atoi(arguments[1]);
  const int to = atoi(arguments[2]);
  const size_t bytes = strtoull(arguments[3], NULL, 10);
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
    return 2;
  const pid_t child = fork();
  if (child == 0) {
    close(pair[0]);
    return owner(from, bytes, pair[1]);
  }
  close(pair[1]);
  const int result = puller(to, bytes, pair[0]);
  close(pair[0]);
  int status = 1;
  (void)waitpid(child, &status, 0);
  return result ? result : WEXITSTATUS(status);
}
