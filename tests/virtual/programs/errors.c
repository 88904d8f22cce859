/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What OpenCL refuses at once, and what may come later. */
#include "client.h"

static void errors(void) {
  size_t size = 16, none = 0, local = 3, much = (size_t)1 << 40;
  int value = 1;
  cl_int status;
  cl_ulong most;
  cl_mem small = filled(64);
  cl_mem written = buffer_of(64, CL_MEM_HOST_WRITE_ONLY, NULL);
  cl_mem only_read = buffer_of(64, CL_MEM_HOST_READ_ONLY | CL_MEM_COPY_HOST_PTR, pattern(64, 2));
  cl_kernel add = prepare("add", small, 1);
  char room[64];
  NEED(clGetDeviceInfo(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof most, &most, NULL));
#define SAY(call) printf("%s: %d\n", #call, (int)(call))
  SAY(clEnqueueReadBuffer(queue, small, CL_TRUE, 60, 8, room, 0, NULL, NULL));
  SAY(clEnqueueReadBuffer(queue, small, CL_TRUE, 0, 8, NULL, 0, NULL, NULL));
  SAY(clEnqueueReadBuffer(queue, written, CL_TRUE, 0, 8, room, 0, NULL, NULL));
  SAY(clEnqueueWriteBuffer(queue, only_read, CL_TRUE, 0, 8, room, 0, NULL, NULL));
  SAY(clEnqueueReadBuffer(queue, NULL, CL_TRUE, 0, 8, room, 0, NULL, NULL));
  SAY(clEnqueueReadBuffer(NULL, small, CL_TRUE, 0, 8, room, 0, NULL, NULL));
  SAY(clEnqueueWriteBuffer(queue, small, CL_FALSE, 65, 1, room, 0, NULL, NULL));
  SAY(clEnqueueWriteBuffer(queue, small, CL_FALSE, 0, 8, room, 1, NULL, NULL));
  SAY(clEnqueueCopyBuffer(queue, small, small, 0, 8, 32, 0, NULL, NULL));
  SAY(clEnqueueCopyBuffer(queue, small, written, 0, 40, 32, 0, NULL, NULL));
  SAY(clEnqueueFillBuffer(queue, small, &value, 3, 0, 12, 0, NULL, NULL));
  SAY(clEnqueueFillBuffer(queue, small, &value, 4, 2, 12, 0, NULL, NULL));
  SAY(clEnqueueNDRangeKernel(queue, add, 0, NULL, &size, NULL, 0, NULL, NULL));
  SAY(clEnqueueNDRangeKernel(queue, add, 4, NULL, &size, NULL, 0, NULL, NULL));
  SAY(clEnqueueNDRangeKernel(queue, add, 1, NULL, &size, &local, 0, NULL, NULL));
  SAY(clEnqueueNDRangeKernel(queue, add, 1, NULL, &much, &much, 0, NULL, NULL) < 0);
  SAY(clSetKernelArg(add, 2, sizeof value, &value));
  SAY(clWaitForEvents(0, NULL));
  SAY(clGetDeviceInfo(device, 0x7fff, sizeof room, room, NULL));
  SAY(clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, 1, room, NULL));
  SAY(clReleaseMemObject(NULL));
#undef SAY
#define SAY(call) (status = 1, (void)(call), printf("%s: %d\n", #call, status))
  SAY(clCreateBuffer(context, 0, none, NULL, &status));
  SAY(clCreateBuffer(context, 0, (size_t)most + 1, NULL, &status));
  SAY(clCreateBuffer(context, CL_MEM_USE_HOST_PTR, 8, NULL, &status));
  SAY(clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, 8, NULL, &status));
  SAY(clCreateBuffer(context, 0, 8, room, &status));
  SAY(clCreateKernel(program, "absent", &status));
  SAY(clCreateProgramWithSource(context, 0, NULL, NULL, &status));
  SAY(clCreateContext(NULL, 0, NULL, NULL, NULL, &status));
  SAY(clCreateUserEvent(NULL, &status));
  SAY(clEnqueueMapBuffer(queue, only_read, CL_TRUE, CL_MAP_READ, 0, 8, 0, NULL, NULL, &status));
  SAY(clEnqueueMapBuffer(queue, only_read, CL_TRUE, CL_MAP_WRITE, 0, 8, 0, NULL, NULL, &status));
  SAY(clEnqueueMapBuffer(queue, written, CL_TRUE, CL_MAP_READ, 0, 8, 0, NULL, NULL, &status));
  SAY(clEnqueueMapBuffer(queue, written, CL_TRUE, CL_MAP_WRITE, 0, 8, 0, NULL, NULL, &status));
  cl_mem_flags flags = 0;
  cl_buffer_region far = {.origin = 0, .size = 65};
  SAY(clCreateSubBuffer(small, flags, CL_BUFFER_CREATE_TYPE_REGION, &far, &status));
#undef SAY
  const char *wrong = "kernel void wrong(global int *to) { to[0] = nowhere; }";
  cl_program broken = clCreateProgramWithSource(context, 1, &wrong, NULL, &status);
  printf("build: %d\n", clBuildProgram(broken, 1, &device, "", NULL, NULL));
  size_t length = 0;
  NEED(clGetProgramBuildInfo(broken, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &length));
  char *log = calloc(length + 1, 1);
  NEED(clGetProgramBuildInfo(broken, device, CL_PROGRAM_BUILD_LOG, length, log, NULL));
  printf("the log names it: %d\n", strstr(log, "nowhere") != NULL);
  free(log);
  NEED(clFinish(queue));
  /* A launch without all arguments is refused, at once or by the next call that waits. */
  status = clEnqueueNDRangeKernel(queue, kernel_of("add"), 1, NULL, &size, NULL, 0, NULL, NULL);
  cl_int then = clFinish(queue);
  printf("unset argument: %d\n", status != CL_SUCCESS ? status : then);
  printf("afterwards: %d\n", clFinish(queue));
  say_content("untouched", small, sizeof room);
}

PROGRAM(SCENARIO(errors))
