/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Buffers on a GPU, or on the host, behind the same few calls: the examples' device side. The CUDA
 * driver is loaded at run time, so that no toolkit is needed to build, and none to run on the host.
 * The device is the one of the local rank, as HPC codes choose it. Include it from one file.
 *
 * A kernel is PTX text for a GPU and a host function toposeat_host_<name> with the same arguments.
 * On the host that function is called; so it is by toposeat's stand-in driver, which finds it in
 * the program (link with -rdynamic).
 */
#ifndef TOPOSEAT_EXAMPLES_GPU_H
#define TOPOSEAT_EXAMPLES_GPU_H

#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef double (*gpu_host_kernel)(void **arguments, const unsigned grid[3],
                                  const unsigned block[3]);

struct gpu_kernel {
  void *function;       /* of the driver; NULL on the host */
  gpu_host_kernel host; /* the same work by the CPU */
};

static struct {
  int used;
  void *library;
  void *module;
  int (*allocate)(unsigned long long *, size_t);
  int (*release)(unsigned long long);
  int (*set)(unsigned long long, unsigned char, size_t);
  int (*put)(unsigned long long, const void *, size_t);
  int (*get)(void *, unsigned long long, size_t);
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                void *, void **, void **);
  int (*wait)(void);
  void *(*memory)(unsigned long long, size_t); /* of the stand-in; NULL on a GPU */
} gpu;

static inline void gpu_check(int result, const char *what) {
  if (result == 0)
    return;
  fprintf(stderr, "%s: the CUDA driver answers %d\n", what, result);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Sets the function pointer at `function`; memcpy, as C knows no cast between the two kinds. */
static inline void gpu_find(const char *name, void *function) {
  void *found = dlsym(gpu.library, name);
  if (found == NULL) {
    fprintf(stderr, "the CUDA driver has no %s\n", name);
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  memcpy(function, (const void *)&found, sizeof found);
}

static inline int gpu_local_rank(void) {
  MPI_Comm node;
  int rank = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &rank);
  MPI_Comm_free(&node);
  return rank;
}

static inline void gpu_find_calls(void) {
  gpu_find("cuMemAlloc_v2", (void *)&gpu.allocate);
  gpu_find("cuMemFree_v2", (void *)&gpu.release);
  gpu_find("cuMemsetD8_v2", (void *)&gpu.set);
  gpu_find("cuMemcpyHtoD_v2", (void *)&gpu.put);
  gpu_find("cuMemcpyDtoH_v2", (void *)&gpu.get);
  gpu_find("cuLaunchKernel", (void *)&gpu.launch);
  gpu_find("cuCtxSynchronize", (void *)&gpu.wait);
  void *memory = dlsym(gpu.library, "toposeat_emulator_memory");
  memcpy((void *)&gpu.memory, (const void *)&memory, sizeof memory);
}

/* Take the device of the local rank. Buffers are the host's until this is called. */
static inline void gpu_open(void) {
  int (*init)(unsigned);
  int (*count)(int *);
  int (*get)(int *, int);
  int (*retain)(void **, int);
  int (*make_current)(void *);
  int devices = 0;
  int device = 0;
  void *context = NULL;
  gpu.library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (gpu.library == NULL) {
    fprintf(stderr, "no CUDA driver: %s\n", dlerror());
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  gpu_find("cuInit", (void *)&init);
  gpu_find("cuDeviceGetCount", (void *)&count);
  gpu_find("cuDeviceGet", (void *)&get);
  gpu_find("cuDevicePrimaryCtxRetain", (void *)&retain);
  gpu_find("cuCtxSetCurrent", (void *)&make_current);
  gpu_find_calls();
  gpu_check(init(0), "cuInit");
  gpu_check(count(&devices), "cuDeviceGetCount");
  gpu_check(devices > 0 ? 0 : 100, "number of devices");
  gpu_check(get(&device, gpu_local_rank() % devices), "cuDeviceGet");
  gpu_check(retain(&context, device), "cuDevicePrimaryCtxRetain");
  gpu_check(make_current(context), "cuCtxSetCurrent");
  gpu.used = 1;
}

static inline unsigned long long gpu_address(const void *buffer) {
  return (unsigned long long)(size_t)buffer;
}

/* A buffer full of zeros. */
static inline void *gpu_allocate(size_t bytes) {
  if (!gpu.used) {
    void *buffer = calloc(1, bytes);
    if (buffer == NULL) {
      MPI_Abort(MPI_COMM_WORLD, 3);
      abort(); /* MPI's header does not say that it does not return */
    }
    return buffer;
  }
  unsigned long long address = 0;
  gpu_check(gpu.allocate(&address, bytes), "cuMemAlloc");
  gpu_check(gpu.set(address, 0, bytes), "cuMemsetD8");
  gpu_check(gpu.wait(), "cuCtxSynchronize");
  return (void *)(size_t)address;
}

static inline void gpu_release(void *buffer) {
  if (gpu.used)
    gpu_check(gpu.release(gpu_address(buffer)), "cuMemFree");
  else
    free(buffer);
}

/* From host memory into a buffer. */
static inline void gpu_put(void *buffer, const void *host, size_t bytes) {
  if (gpu.used)
    gpu_check(gpu.put(gpu_address(buffer), host, bytes), "cuMemcpyHtoD");
  else
    memcpy(buffer, host, bytes);
}

/* From a buffer into host memory. */
static inline void gpu_get(void *host, const void *buffer, size_t bytes) {
  if (gpu.used)
    gpu_check(gpu.get(host, gpu_address(buffer), bytes), "cuMemcpyDtoH");
  else
    memcpy(host, buffer, bytes);
}

/* All work that was started is done: before MPI may read a buffer. */
static inline void gpu_wait(void) {
  if (gpu.used)
    gpu_check(gpu.wait(), "cuCtxSynchronize");
}

/* A kernel of a PTX text, which must be the same text for all kernels of the program. */
static inline struct gpu_kernel gpu_kernel(const char *ptx, const char *name,
                                           gpu_host_kernel host) {
  struct gpu_kernel kernel = {NULL, host};
  if (!gpu.used)
    return kernel;
  int (*load)(void **, const void *);
  int (*get)(void **, void *, const char *);
  gpu_find("cuModuleLoadData", (void *)&load);
  gpu_find("cuModuleGetFunction", (void *)&get);
  if (gpu.module == NULL)
    gpu_check(load(&gpu.module, ptx), "cuModuleLoadData");
  gpu_check(get(&kernel.function, gpu.module, name), name);
  return kernel;
}

/* Start a kernel of `threads` threads; on the host it is done on return. */
static inline void gpu_start(struct gpu_kernel kernel, unsigned threads, void **arguments) {
  const unsigned grid[3] = {(threads + 255) / 256, 1, 1};
  const unsigned block[3] = {256, 1, 1};
  if (threads == 0)
    return;
  if (gpu.used)
    gpu_check(gpu.launch(kernel.function, grid[0], 1, 1, block[0], 1, 1, 0, NULL, arguments, NULL),
              "cuLaunchKernel");
  else
    (void)kernel.host(arguments, grid, block);
}

/* For host functions of kernels: the memory behind argument `number`, a buffer of `bytes`. */
static inline void *gpu_reach(void **arguments, int number, size_t bytes) {
  unsigned long long address = 0;
  memcpy(&address, arguments[number], sizeof address);
  return gpu.memory != NULL ? gpu.memory(address, bytes) : (void *)(size_t)address;
}

#endif
