/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A layer of OpenCL's loader (OPENCL_LAYERS) by which a driver refuses all calls of one name, that
   of TOPOSEAT_TEST_FAULT, with CL_OUT_OF_HOST_MEMORY. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl_layer.h>

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static cl_icd_dispatch table;

/* Whatever the arguments of a call that returns a code. */
static cl_int refuse(void) { return CL_OUT_OF_HOST_MEMORY; }

static cl_mem CL_API_CALL refuse_buffer(cl_context context, cl_mem_flags flags, size_t size,
                                        void *host, cl_int *code) {
  (void)context, (void)flags, (void)size, (void)host;
  *code = CL_OUT_OF_HOST_MEMORY;
  return NULL;
}

static cl_event CL_API_CALL refuse_event(cl_context context, cl_int *code) {
  (void)context;
  *code = CL_OUT_OF_HOST_MEMORY;
  return NULL;
}

#define CODE(name) {#name, offsetof(cl_icd_dispatch, name)}
static const struct {
  const char *name;
  size_t at;
} CALLS[] = {
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
    if (strcmp(CALLS[i].name, fault) == 0)
      *(cl_int(**)(void))((char *)&table + CALLS[i].at) = refuse;
  if (strcmp(fault, "clCreateBuffer") == 0)
    table.clCreateBuffer = refuse_buffer;
  if (strcmp(fault, "clCreateUserEvent") == 0)
    table.clCreateUserEvent = refuse_event;
  *count_ret = sizeof table / sizeof(void *);
  *layer = &table;
  return CL_SUCCESS;
}
