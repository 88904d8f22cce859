// Host memory, or the memory of one GPU through its driver, which is loaded at run time.
//
// Two drivers are known: CUDA's (libcuda.so.1) and HIP's run-time library (libamdhip64.so). A rank
// takes device `local rank modulo devices` of those it can see, as applications do: the order of
// the devices is what a placement changes.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "microbench.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct driver {
  int on; // buffers are on the device
  char name[96];
  int kind;             // MPICH's number for it
  const char *question; // Open MPI's
  int (*allocate)(unsigned char **buffer, size_t bytes);
  int (*release)(unsigned char *buffer);
  int (*to_device)(unsigned char *buffer, const unsigned char *host, size_t bytes);
  int (*to_host)(unsigned char *host, const unsigned char *buffer, size_t bytes);
  int (*within)(unsigned char *to, const unsigned char *from, size_t bytes);
};

static struct driver driver;

/// Sets the function pointer at `function`; memcpy, as C knows no cast between the two kinds.
static void find(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);
  if (found == NULL)
    fail("the GPU driver has no %s", name);
  memcpy(function, (const void *)&found, sizeof found);
}

static int check(int status, const char *what) {
  if (status != 0)
    fail("%s: the GPU driver answered %d", what, status);
  return status;
}

static int local_rank(void) {
  MPI_Comm node;
  int rank = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &rank);
  MPI_Comm_free(&node);
  return rank;
}

static int chosen_device(int devices, const char *library) {
  if (devices < 1)
    fail("%s sees no GPU", library);
  return local_rank() % devices;
}

// CUDA's driver interface: a device pointer is a 64-bit number.
static int (*cu_allocate)(unsigned long long *, size_t);
static int (*cu_release)(unsigned long long);
static int (*cu_to_device)(unsigned long long, const void *, size_t);
static int (*cu_to_host)(void *, unsigned long long, size_t);
static int (*cu_within)(unsigned long long, unsigned long long, size_t);

static unsigned long long cu_pointer(const unsigned char *buffer) {
  return (unsigned long long)(size_t)buffer;
}

static int cuda_allocate(unsigned char **buffer, size_t bytes) {
  unsigned long long address = 0;
  int status = cu_allocate(&address, bytes);
  *buffer = (unsigned char *)(size_t)address; // NOLINT(performance-no-int-to-ptr)
  return status;
}

static int cuda_release(unsigned char *buffer) { return cu_release(cu_pointer(buffer)); }

static int cuda_to_device(unsigned char *buffer, const unsigned char *host, size_t bytes) {
  return cu_to_device(cu_pointer(buffer), host, bytes);
}

static int cuda_to_host(unsigned char *host, const unsigned char *buffer, size_t bytes) {
  return cu_to_host(host, cu_pointer(buffer), bytes);
}

static int cuda_within(unsigned char *to, const unsigned char *from, size_t bytes) {
  return cu_within(cu_pointer(to), cu_pointer(from), bytes);
}

static void open_cuda(void *library) {
  int (*init)(unsigned);
  int (*count)(int *);
  int (*get)(int *, int);
  int (*bus_id)(char *, int, int);
  int (*retain)(void **, int);
  int (*make_current)(void *);
  driver.kind = 0;
  driver.question = "MPIX_Query_cuda_support";
  find(library, "cuInit", (void *)&init);
  find(library, "cuDeviceGetCount", (void *)&count);
  find(library, "cuDeviceGet", (void *)&get);
  find(library, "cuDeviceGetPCIBusId", (void *)&bus_id);
  find(library, "cuDevicePrimaryCtxRetain", (void *)&retain);
  find(library, "cuCtxSetCurrent", (void *)&make_current);
  int devices = 0;
  int device = 0;
  void *context = NULL;
  check(init(0), "cuInit");
  check(count(&devices), "cuDeviceGetCount");
  check(get(&device, chosen_device(devices, "libcuda.so.1")), "cuDeviceGet");
  check(retain(&context, device), "cuDevicePrimaryCtxRetain");
  check(make_current(context), "cuCtxSetCurrent");
  check(bus_id(driver.name, (int)sizeof driver.name, device), "cuDeviceGetPCIBusId");
  find(library, "cuMemAlloc_v2", (void *)&cu_allocate);
  find(library, "cuMemFree_v2", (void *)&cu_release);
  find(library, "cuMemcpyHtoD_v2", (void *)&cu_to_device);
  find(library, "cuMemcpyDtoH_v2", (void *)&cu_to_host);
  find(library, "cuMemcpyDtoD_v2", (void *)&cu_within);
  driver.allocate = cuda_allocate;
  driver.release = cuda_release;
  driver.to_device = cuda_to_device;
  driver.to_host = cuda_to_host;
  driver.within = cuda_within;
}

enum { HIP_TO_DEVICE = 1, HIP_TO_HOST = 2, HIP_WITHIN = 3 };

static int (*hip_allocate)(void **, size_t);
static int (*hip_release)(void *);
static int (*hip_copy)(void *, const void *, size_t, int);

static int amd_allocate(unsigned char **buffer, size_t bytes) {
  void *address = NULL;
  int status = hip_allocate(&address, bytes);
  *buffer = address;
  return status;
}

static int amd_release(unsigned char *buffer) { return hip_release(buffer); }

static int amd_to_device(unsigned char *buffer, const unsigned char *host, size_t bytes) {
  return hip_copy(buffer, host, bytes, HIP_TO_DEVICE);
}

static int amd_to_host(unsigned char *host, const unsigned char *buffer, size_t bytes) {
  return hip_copy(host, buffer, bytes, HIP_TO_HOST);
}

static int amd_within(unsigned char *to, const unsigned char *from, size_t bytes) {
  return hip_copy(to, from, bytes, HIP_WITHIN);
}

static void open_hip(void *library) {
  int (*count)(int *);
  int (*set)(int);
  int (*bus_id)(char *, int, int);
  driver.kind = 2;
  driver.question = "MPIX_Query_rocm_support";
  find(library, "hipGetDeviceCount", (void *)&count);
  find(library, "hipSetDevice", (void *)&set);
  find(library, "hipDeviceGetPCIBusId", (void *)&bus_id);
  int devices = 0;
  check(count(&devices), "hipGetDeviceCount");
  int device = chosen_device(devices, "libamdhip64.so");
  check(set(device), "hipSetDevice");
  check(bus_id(driver.name, (int)sizeof driver.name, device), "hipDeviceGetPCIBusId");
  find(library, "hipMalloc", (void *)&hip_allocate);
  find(library, "hipFree", (void *)&hip_release);
  find(library, "hipMemcpy", (void *)&hip_copy);
  driver.allocate = amd_allocate;
  driver.release = amd_release;
  driver.to_device = amd_to_device;
  driver.to_host = amd_to_host;
  driver.within = amd_within;
}

int memory_open(const struct options *options) {
  driver.on = options->device;
  if (!driver.on)
    return 0;
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library != NULL) {
    open_cuda(library);
    return 0;
  }
  library = dlopen("libamdhip64.so", RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL)
    return 1;
  open_hip(library);
  return 0;
}

// Open MPI and MPICH answer for themselves and their collectives; what a transport below them knows
// (UCX with CUDA) is for two-sided messages.
int memory_is_for_library(void) {
  if (!driver.on)
    return 1;
  int (*ask)(void) = NULL;
  int (*ask_kind)(int, int *) = NULL;
  int answer = 0;
  void *found = dlsym(RTLD_DEFAULT, "MPIX_GPU_query_support");
  if (found != NULL) {
    memcpy((void *)&ask_kind, (const void *)&found, sizeof found);
    return ask_kind(driver.kind, &answer) == 0 && answer;
  }
  found = dlsym(RTLD_DEFAULT, driver.question);
  if (found == NULL)
    return 1; // it does not say: as the user wants it
  memcpy((void *)&ask, (const void *)&found, sizeof found);
  return ask();
}

const char *memory_device(void) { return driver.on ? driver.name : ""; }

unsigned char *memory_new(size_t bytes) {
  unsigned char *buffer = NULL;
  if (driver.on)
    check(driver.allocate(&buffer, bytes), "allocating a buffer");
  else
    buffer = malloc(bytes);
  if (buffer == NULL)
    fail("no memory for a buffer of %zu bytes", bytes);
  return buffer;
}

void memory_write(unsigned char *buffer, const unsigned char *host, size_t bytes) {
  if (driver.on)
    check(driver.to_device(buffer, host, bytes), "copying to the device");
  else
    memcpy(buffer, host, bytes);
}

void memory_read(unsigned char *host, const unsigned char *buffer, size_t bytes) {
  if (driver.on)
    check(driver.to_host(host, buffer, bytes), "copying from the device");
  else
    memcpy(host, buffer, bytes);
}

void memory_copy(unsigned char *to, const unsigned char *from, size_t bytes) {
  if (driver.on)
    check(driver.within(to, from, bytes), "copying within the device");
  else
    memcpy(to, from, bytes);
}

void memory_delete(unsigned char *buffer) {
  if (buffer == NULL)
    return;
  if (driver.on)
    check(driver.release(buffer), "releasing a buffer");
  else
    free(buffer);
}
