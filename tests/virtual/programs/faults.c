/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A layer of OpenCL's loader (OPENCL_LAYERS) by which a driver refuses all calls of one name, that
   of TOPOSEAT_TEST_FAULT, with CL_OUT_OF_HOST_MEMORY. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl_layer.h>

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static cl_icd_dispatch table;

/* Whatever the arguments of a call that returns a code. */
static cl_int refuse(void) { return CL_OUT_OF_HOST_MEMORY; }

/* And of one that returns an object: its code goes to where the last argument points. */
static int last;
static void *refuse_to_make(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e,
                            uintptr_t f, uintptr_t g, uintptr_t h, uintptr_t i) {
  const uintptr_t all[] = {a, b, c, d, e, f, g, h, i};
  *(cl_int *)all[last - 1] = CL_OUT_OF_HOST_MEMORY;
  return NULL;
}

#define CODE(name) {#name, offsetof(cl_icd_dispatch, name), 0}
#define MADE(name, arguments) {#name, offsetof(cl_icd_dispatch, name), arguments}
static const struct {
  const char *name;
  size_t at;
  int arguments; /* 0: it returns a code */
} CALLS[] = {
    MADE(clCreateContext, 6),
    MADE(clCreateCommandQueue, 4),
    MADE(clCreateBuffer, 5),
    MADE(clCreateSubBuffer, 5),
    MADE(clCreateImage, 6),
    MADE(clCreateSampler, 5),
    MADE(clCreateProgramWithSource, 5),
    MADE(clCreateProgramWithBinary, 7),
    MADE(clLinkProgram, 9),
    MADE(clCreateKernel, 3),
    MADE(clCreateUserEvent, 2),
    CODE(clCreateSubDevices),
    CODE(clGetSupportedImageFormats),
    CODE(clBuildProgram),
    CODE(clCompileProgram),
    CODE(clGetProgramInfo),
    CODE(clGetProgramBuildInfo),
    CODE(clGetKernelInfo),
    CODE(clGetKernelWorkGroupInfo),
    CODE(clSetKernelArg),
    CODE(clSetUserEventStatus),
    CODE(clEnqueueNDRangeKernel),
    CODE(clEnqueueTask),
    CODE(clEnqueueReadBuffer),
    CODE(clEnqueueWriteBuffer),
    CODE(clEnqueueCopyBuffer),
    CODE(clEnqueueFillBuffer),
    CODE(clEnqueueReadBufferRect),
    CODE(clEnqueueWriteBufferRect),
    CODE(clEnqueueCopyBufferRect),
    CODE(clEnqueueReadImage),
    CODE(clEnqueueWriteImage),
    CODE(clEnqueueCopyImage),
    CODE(clEnqueueFillImage),
    CODE(clEnqueueCopyImageToBuffer),
    CODE(clEnqueueMarkerWithWaitList),
    CODE(clEnqueueBarrierWithWaitList),
    CODE(clEnqueueCopyBufferToImage),
    CODE(clEnqueueMigrateMemObjects),
};

cl_int clGetLayerInfo(cl_layer_info name, size_t size, void *value, size_t *size_ret) {
  const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  if (name != CL_LAYER_API_VERSION || (value != NULL && size < sizeof version))
    return CL_INVALID_VALUE;
  if (value != NULL)
    memcpy(value, &version, sizeof version);
  if (size_ret != NULL)
    *size_ret = sizeof version;
  return CL_SUCCESS;
}

cl_int clInitLayer(cl_uint count, const cl_icd_dispatch *target, cl_uint *count_ret,
                   const cl_icd_dispatch **layer) {
  const char *fault = getenv("TOPOSEAT_TEST_FAULT");
  if (count < sizeof table / sizeof(void *) || fault == NULL)
    return CL_INVALID_VALUE;
  table = *target;
  for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++)
    if (strcmp(CALLS[i].name, fault) == 0) {
      last = CALLS[i].arguments;
      void (*by)(void) = last == 0 ? (void (*)(void))refuse : (void (*)(void))refuse_to_make;
      memcpy((char *)&table + CALLS[i].at, &by, sizeof by);
    }
  *count_ret = sizeof table / sizeof(void *);
  *layer = &table;
  return CL_SUCCESS;
}
