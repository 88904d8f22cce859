/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Parts of a device, and several of them. */
#include "client.h"

static void sub_devices(void) {
  const cl_device_partition_property halves[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
  cl_device_id parts[8];
  cl_uint count = 0, units = 0;
  cl_int status = clCreateSubDevices(device, halves, 8, parts, &count);
  printf("partition: %d, %u\n", status, count);
  if (status != CL_SUCCESS)
    return;
  NEED(clGetDeviceInfo(parts[0], CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL));
  printf("units: %u\n", units);
  begin_with(1, parts);
  cl_mem buffer = filled(64);
  launch(queue, prepare("add", buffer, 1), 16, NULL, NULL);
  say_content("added", buffer, 64);
}

/* A context with devices of two proxies, on one platform or two. */
static void across(void) {
  cl_platform_id found[2];
  cl_device_id both[4];
  cl_uint platforms, count = 0, more;
  NEED(clGetPlatformIDs(2, found, &platforms));
  for (cl_uint i = 0; i < platforms; i++, count += more)
    NEED(clGetDeviceIDs(found[i], CL_DEVICE_TYPE_ALL, 2, both + count, &more));
  cl_int status = 1;
  clCreateContext(NULL, 2, both, NULL, NULL, &status);
  printf("%u devices, context: %d\n", count, status);
}

/* All devices of the platform in one context: each computes on one buffer in turn. */
static void together(void) {
  cl_platform_id platform;
  cl_device_id all[8];
  cl_uint count;
  NEED(clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL));
  NEED(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 8, all, &count));
  begin_with(count, all);
  cl_mem buffer = filled(64);
  cl_kernel add = prepare("add", buffer, 10);
  cl_event before = NULL, event;
  for (cl_uint i = 0; i < count; i++) {
    device = all[i];
    queue = new_queue(0);
    launch(queue, add, 16, before, &event);
    NEED(clFlush(queue));
    before = event;
  }
  NEED(clWaitForEvents(1, &before));
  printf("%u devices\n", count);
  say_content("added by all", buffer, 64);
}

PROGRAM(SCENARIO(sub_devices), SCENARIO(across), SCENARIO(together))
