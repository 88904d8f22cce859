/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Images and samplers. */
#include "client.h"

static void images(void) {
  enum { SIDE = 64 };
  const size_t all[3] = {SIDE, SIDE, 1}, part[3] = {16, 8, 1}, at[3] = {8, 16, 0};
  const cl_uint colour[4] = {1, 2, 3, 4};
  unsigned char *data = pattern(SIDE * SIDE * 4, 4), *got = calloc(SIDE * SIDE, 4);
  cl_int status;
  cl_mem one = image_of(SIDE, CL_MEM_COPY_HOST_PTR, data);
  cl_mem two = image_of(SIDE, CL_MEM_WRITE_ONLY, NULL);
  NEED(clEnqueueFillImage(queue, one, colour, at, part, 0, NULL, NULL));
  program = build("kernel void turn(read_only image2d_t from, write_only image2d_t to, sampler_t s)"
                  "{ int2 at = (int2)(get_global_id(0), get_global_id(1));"
                  "  write_imageui(to, at.yx, read_imageui(from, s, at)); }",
                  "");
  cl_sampler sampler = new_sampler();
  cl_kernel turn = kernel_on("turn", one);
  NEED(clSetKernelArg(turn, 1, sizeof two, &two));
  NEED(clSetKernelArg(turn, 2, sizeof(cl_sampler), &sampler));
  NEED(clEnqueueNDRangeKernel(queue, turn, 2, NULL, all, NULL, 0, NULL, NULL));
  NEED(clEnqueueReadImage(queue, two, CL_TRUE, ORIGIN, all, 0, 0, got, 0, NULL, NULL));
  printf("turned: %lx\n", digest(got, SIDE * SIDE * 4));
  NEED(clEnqueueWriteImage(queue, one, CL_TRUE, at, part, SIDE * 4, 0, data, 0, NULL, NULL));
  NEED(clEnqueueCopyImage(queue, one, two, at, ORIGIN, part, 0, NULL, NULL));
  size_t pitch = 0;
  unsigned char *mapped = clEnqueueMapImage(queue, two, CL_TRUE, CL_MAP_READ, ORIGIN, part, &pitch,
                                            NULL, 0, NULL, NULL, &status);
  need(status, "map");
  for (size_t row = 0; row < part[1]; row++)
    printf("row %zu: %lx\n", row, digest(mapped + row * pitch, part[0] * 4));
  unmap(two, mapped);
  NEED(clFinish(queue));
}

PROGRAM(SCENARIO(images))
