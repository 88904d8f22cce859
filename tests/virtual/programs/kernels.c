/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Programs and kernels. */
#include "client.h"

/* Whether kernels are told the version that the device has, and lines of their own source. */
static void kernel_says(void) {
  char version[128];
  int told[2], major, minor;
  cl_mem buffer = buffer_of(sizeof told, 0, NULL);
  launch(queue, kernel_on("f", buffer), 1, NULL, NULL);
  NEED(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof told, told, 0, NULL, NULL));
  NEED(clGetDeviceInfo(device, CL_DEVICE_VERSION, sizeof version, version, NULL));
  if (sscanf(version, "OpenCL %d.%d", &major, &minor) != 2)
    exit(4);
  printf("the device's version: %d, line %d\n", told[0] == 100 * major + 10 * minor, told[1]);
}

static void kernels(void) {
  cl_mem buffer = filled(COUNT * 4);
  cl_kernel local_sum = kernel_on("local_sum", buffer), all[8];
  size_t size = COUNT, group = 64, offset = 64, half = COUNT / 2;
  cl_uint count = 0;
  NEED(clSetKernelArg(local_sum, 1, 64 * sizeof(cl_int), NULL));
  NEED(clEnqueueNDRangeKernel(queue, local_sum, 1, NULL, &size, &group, 0, NULL, NULL));
  cl_kernel add = prepare("add", buffer, 1);
  NEED(clEnqueueNDRangeKernel(queue, add, 1, &offset, &half, NULL, 0, NULL, NULL));
  int what = 1000; /* an argument counts from when it is set */
  NEED(clSetKernelArg(add, 1, sizeof what, &what));
  NEED(clEnqueueTask(queue, add, 0, NULL, NULL));
  say_content("launched", buffer, COUNT * 4);
  NEED(clCreateKernelsInProgram(program, 8, all, &count));
  printf("%u kernels\n", count);
  program = of_binary();
  launch(queue, prepare("add", buffer, 5), 100, NULL, NULL);
  say_content("of a binary", buffer, COUNT * 4);
  cl_program options = build("kernel void f(global int *a) { a[0] = N; }", "-DN=42");
  char said[64];
  NEED(clGetProgramBuildInfo(options, device, CL_PROGRAM_BUILD_OPTIONS, sizeof said, said, NULL));
  printf("options: %s\n", said);
  program =
      build("kernel void f(global int *a) {\n a[0] = __OPENCL_VERSION__; a[1] = __LINE__; }", "");
  kernel_says();
}

static void compiled_and_linked(void) {
  cl_mem buffer = filled(4);
  program = linked();
  launch(queue, kernel_on("f", buffer), 1, NULL, NULL);
  say_content("linked", buffer, 4);
}

static void print(void) {
  cl_kernel say = kernel_of("say");
  for (int i = 1; i <= 3; i++) {
    NEED(clSetKernelArg(say, 0, sizeof i, &i));
    launch(queue, say, 1, NULL, NULL);
  }
  NEED(clFinish(queue));
}

PROGRAM(SCENARIO(kernels), SCENARIO(compiled_and_linked), SCENARIO(print))
