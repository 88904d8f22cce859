/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The driver refuses some calls (faults.c), and the program must hear of it. */
#include "client.h"

/* All launches are refused. */
static void refused_launches(void) {
  cl_mem buffer = filled(64);
  cl_kernel add = prepare("add", buffer, 1);
  cl_command_queue other = new_queue(0);
  cl_event event, after;
  cl_int got[16], heard = 99;
  launch(queue, add, 16, NULL, NULL);
  printf("finish: %d", clFinish(queue));
  printf(", again %d\n", clFinish(queue));
  launch(queue, add, 16, NULL, NULL);
  printf("flush: %d", clFlush(queue));
  printf(", read: %d", clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 64, got, 0, NULL, NULL));
  printf(", finish: %d\n", clFinish(queue));
  launch(queue, add, 16, NULL, &event);
  printf("wait: %d", clWaitForEvents(1, &event));
  printf(", status: %d, finish: %d\n", status_of(event), clFinish(queue));
  launch(queue, add, 16, NULL, &event);
  printf("finish: %d", clFinish(queue));
  printf(", wait: %d", clWaitForEvents(1, &event));
  printf(", status: %d, finish: %d\n", status_of(event), clFinish(queue));
  launch(queue, add, 16, NULL, &event);
  NEED(clSetEventCallback(event, CL_COMPLETE, on_event, &heard));
  NEED(clFlush(queue));
  await_calls(1);
  printf("callback: %d, finish: %d\n", heard, clFinish(queue));
  launch(queue, add, 16, NULL, &event);
  NEED(clFlush(queue));
  NEED(clEnqueueMarkerWithWaitList(other, 1, &event, &after));
  printf("what waits: %d", clWaitForEvents(1, &after));
  printf(", status: %d, its queue: %d", status_of(after), clFinish(other));
  printf(", the first one's: %d\n", clFinish(queue));
  launch(queue, add, 16, NULL, &event);
  launch(queue, add, 16, NULL, &after);
  printf("two, one waited for: %d", clWaitForEvents(1, &event));
  printf(", finish: %d\n", clFinish(queue));
  say_content("not added", buffer, 64);
}

/* One of each call that the proxy answers for. What is refused at once ends the program, as need()
   says it; else whether any refusal was heard. */
static void heard(void) {
  const cl_device_partition_property single[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
  const size_t all[3] = {16, 16, 1}, bytes[3] = {16, 4, 1};
  unsigned char room[1024] = {0};
  const cl_uint color[4] = {1, 2, 3, 4};
  cl_uint count;
  cl_int status, worst = 0, zero = 0;
#define HEAR(call) (status = (call), worst = status < worst ? status : worst)
  cl_event gate = user_event(), event;
  HEAR(clSetUserEventStatus(gate, CL_COMPLETE));
  HEAR(clFinish(queue));
  if (worst == 0) /* else nothing ends that waits for it */
    HEAR(clEnqueueMarkerWithWaitList(queue, 1, &gate, &event));
  cl_mem one = buffer_of(1024, 0, NULL), two = buffer_of(1024, 0, NULL);
  cl_mem image = image_of(16, 0, NULL), picture = image_of(16, 0, NULL);
  cl_kernel add = prepare("add", one, 1);
  NEED(clGetKernelInfo(add, CL_KERNEL_ATTRIBUTES, sizeof room, room, NULL));
  NEED(clGetKernelWorkGroupInfo(add, device, CL_KERNEL_WORK_GROUP_SIZE, 8, room, NULL));
  NEED(clGetSupportedImageFormats(context, 0, CL_MEM_OBJECT_IMAGE2D, 0, NULL, &count));
  NEED(clCreateSubDevices(device, single, 0, NULL, &count));
  new_sampler();
  if (worst == 0) /* else its parent could not be made */
    part_of(one, 0, 512);
  HEAR(clEnqueueFillBuffer(queue, one, &zero, 4, 0, 1024, 0, NULL, NULL));
  HEAR(clEnqueueWriteBuffer(queue, two, CL_FALSE, 0, 1024, room, 0, NULL, NULL));
  HEAR(clEnqueueCopyBuffer(queue, one, two, 0, 0, 64, 0, NULL, NULL));
  HEAR(clEnqueueNDRangeKernel(queue, add, 1, NULL, all, NULL, 0, NULL, NULL));
  HEAR(clEnqueueTask(queue, add, 0, NULL, NULL));
  HEAR(clEnqueueMigrateMemObjects(queue, 1, &one, 0, 0, NULL, NULL));
  HEAR(clEnqueueBarrierWithWaitList(queue, 0, NULL, NULL));
  HEAR(clEnqueueCopyBufferRect(queue, one, two, ORIGIN, ORIGIN, bytes, 0, 0, 0, 0, 0, NULL, NULL));
  HEAR(clEnqueueWriteBufferRect(queue, one, CL_FALSE, ORIGIN, ORIGIN, bytes, 0, 0, 0, 0, room, 0,
                                NULL, NULL));
  HEAR(clEnqueueReadBufferRect(queue, one, CL_FALSE, ORIGIN, ORIGIN, bytes, 0, 0, 0, 0, room, 0,
                               NULL, NULL));
  HEAR(clEnqueueFillImage(queue, image, color, ORIGIN, all, 0, NULL, NULL));
  HEAR(clEnqueueWriteImage(queue, picture, CL_FALSE, ORIGIN, all, 0, 0, room, 0, NULL, NULL));
  HEAR(clEnqueueCopyImage(queue, image, picture, ORIGIN, ORIGIN, all, 0, NULL, NULL));
  HEAR(clEnqueueCopyImageToBuffer(queue, image, one, ORIGIN, all, 0, 0, NULL, NULL));
  HEAR(clEnqueueCopyBufferToImage(queue, one, image, 0, ORIGIN, all, 0, NULL, NULL));
  HEAR(clEnqueueReadImage(queue, image, CL_FALSE, ORIGIN, all, 0, 0, room, 0, NULL, NULL));
  HEAR(clEnqueueReadBuffer(queue, two, CL_FALSE, 0, 1024, room, 0, NULL, NULL));
  HEAR(clFinish(queue));
#undef HEAR
  printf("heard: %d\n", worst);
}

/* And of what becomes of a source, which takes the driver long. */
static void built(void) {
  char room[1024];
  NEED(clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof room, room, NULL));
  linked();
  of_binary();
  printf("heard: 0\n");
}

PROGRAM(SCENARIO(refused_launches), SCENARIO(heard), SCENARIO(built))
