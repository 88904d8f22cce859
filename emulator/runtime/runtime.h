/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The stand-in's runtime library, over the calls of its driver. calls.tsv lists what it answers. */
#ifndef TOPOSEAT_EMULATOR_RUNTIME_H
#define TOPOSEAT_EMULATOR_RUNTIME_H

#include <stdatomic.h>
#include <stdbool.h>

#include "cuda_calls.h"
#include "cudart_abi.h"

#pragma GCC visibility push(default)
#include "cudart.h"
#pragma GCC visibility pop

#define RT_EXPORT __attribute__((visibility("default")))
#define RT_ADDRESS(pointer) ((CUdeviceptr)(uintptr_t)(pointer))

/* What the unversioned call for properties writes: in version 12 the members of version 11. */
#if CUDART_MAJOR < 13
#define RT_FIRST_PROPERTIES offsetof(struct cudaDeviceProp, hostRegisterSupported)
#else
#define RT_FIRST_PROPERTIES sizeof(struct cudaDeviceProp)
#endif

/* ---- every call: what it needs before, and what it leaves behind */

CUresult rt_driver_ready(void);
/* The calling thread has a current context: if it had none, that of its device. */
CUresult rt_ready(void);
/* A call's result, kept as the thread's last error. */
cudaError_t rt_answer(CUresult result);
/* "Not supported", which is said once of every call. */
cudaError_t rt_unsupported(atomic_flag *said, const char *name);

#define RT_UNSUPPORTED(name)                                                                       \
  RT_EXPORT cudaError_t name(void);                                                                \
  RT_EXPORT cudaError_t name(void) {                                                               \
    static atomic_flag said = ATOMIC_FLAG_INIT;                                                    \
    return rt_unsupported(&said, #name);                                                           \
  }

/* ---- devices */

/* The device's primary context, which this library holds until the device is reset. */
CUresult rt_start(int device, CUcontext *context);
/* The same, made the calling thread's. */
CUresult rt_use(int device);
CUresult rt_reset(void);
CUresult rt_version(int *version);
CUresult rt_count(int *count);
CUresult rt_device(int *device);
CUresult rt_describe(struct cudaDeviceProp *properties, size_t bytes, int device);
CUresult rt_enable_peer(int peer, unsigned flags);
CUresult rt_disable_peer(int peer);

/* ---- memory and copies */

CUresult rt_allocate(void **pointer, size_t bytes);
CUresult rt_allocate_host(void **pointer, size_t bytes, unsigned flags);
CUresult rt_pointer(struct cudaPointerAttributes *attributes, const void *pointer);

struct rt_peers {
  void *to;
  int to_device;
  const void *from;
  int from_device;
};

struct rt_rows {
  void *to;
  size_t to_pitch;
  const void *from;
  size_t from_pitch, width, height;
};

CUresult rt_copy(void *to, const void *from, size_t bytes, int kind, CUstream stream, bool wait);
CUresult rt_copy_peer(const struct rt_peers *peers, size_t bytes, CUstream stream, bool wait);
CUresult rt_copy_rows(const struct rt_rows *rows, int kind, CUstream stream, bool wait);
CUresult rt_fill_rows(const struct rt_rows *rows, int value, CUstream stream, bool wait);

/* ---- kernels */

CUresult rt_no_kernel(const void *kernel);
CUresult rt_kernel(const void **found, const void *kernel);
CUresult rt_pop_launch(struct dim3 *grid, struct dim3 *block, size_t *shared, CUstream *stream);
/* There are no graphs: no stream captures, whatever the thread's mode. */
CUresult rt_is_capturing(int *status);
CUresult rt_capture_mode(int *mode);

#endif
