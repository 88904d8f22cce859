/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the test moves to another device meanwhile. */
#include "client.h"

static void stay(void) {
  puts("ready");
  (void)getchar();
}

/* Everything that a process can have, and all of it is as it was. */
static void moved(void) {
  enum { SIDE = 32 };
  cl_kernel add = kernel_of("add"); /* older than its buffer */
  const size_t all[3] = {SIDE, SIDE, 1};
  unsigned char *host = pattern(COUNT, 3), *got = calloc(SIDE * SIDE, 4);
  cl_mem plain = buffer_of(LARGE + 12, 0, NULL), used = buffer_of(COUNT, CL_MEM_USE_HOST_PTR, host);
  cl_mem hidden = buffer_of(64, CL_MEM_COPY_HOST_PTR | CL_MEM_HOST_NO_ACCESS, pattern(64, 8));
  cl_mem shown = buffer_of(64, 0, NULL);
  cl_mem part = part_of(used, COUNT / 2, COUNT / 4);
  cl_mem image = image_of(SIDE, CL_MEM_COPY_HOST_PTR, pattern(SIDE * SIDE * 4, 4));
  cl_sampler sampler = new_sampler();
  cl_command_queue timed = new_queue(CL_QUEUE_PROFILING_ENABLE);
  unsigned char *data = pattern(LARGE + 12, 6);
  cl_event written, done, gate = user_event();
  NEED(clEnqueueWriteBuffer(queue, plain, CL_FALSE, 0, LARGE + 12, data, 0, NULL, &written));
  NEED(clSetKernelArg(add, 1, sizeof(cl_int), &(cl_int){16}));
  NEED(clSetKernelArg(add, 0, sizeof part, &part));
  launch(timed, add, COUNT / 16, written, &done);
  cl_program first = program;
  program = build("kernel void turn(read_only image2d_t from, global uint *to, sampler_t s) {"
                  "  int2 at = (int2)(get_global_id(0), get_global_id(1));"
                  "  uint4 c = read_imageui(from, s, at.yx);"
                  "  to[at.y * 32 + at.x] = c.x + c.y + c.z + c.w; }",
                  "");
  cl_kernel turn = kernel_on("turn", image);
  NEED(clSetKernelArg(turn, 2, sizeof(cl_sampler), &sampler));
  program = linked();
  cl_kernel f = kernel_on("f", plain);
  program = first;
  cl_kernel late = kernel_of("local_sum");
  NEED(clSetKernelArg(late, 1, 64 * sizeof(cl_int), NULL));
  stay();
  NEED(clSetKernelArg(turn, 1, sizeof plain, &plain));
  say_content("plain", plain, LARGE + 12);
  say_content("used", used, COUNT);
  NEED(clEnqueueCopyBuffer(queue, hidden, shown, 0, 0, 64, 0, NULL, NULL));
  say_content("hidden", shown, 64);
  launch(timed, add, COUNT / 16, done, NULL);
  launch(timed, f, 1, written, NULL);
  NEED(clFinish(timed));
  NEED(clEnqueueNDRangeKernel(queue, turn, 2, NULL, all, NULL, 0, NULL, NULL));
  say_content("turned", plain, SIDE * SIDE * 4);
  say_content("added in a part", used, COUNT);
  NEED(clEnqueueReadImage(queue, image, CL_TRUE, ORIGIN, all, 0, 0, got, 0, NULL, NULL));
  printf("image: %lx\n", digest(got, SIDE * SIDE * 4));
  launch(queue, f, 1, gate, &done);
  NEED(clFlush(queue));
  printf("waits for its gate: %d\n", status_of(done) > CL_COMPLETE);
  NEED(clSetUserEventStatus(gate, CL_COMPLETE));
  NEED(clWaitForEvents(1, &done));
  cl_ulong began, ended;
  cl_event event;
  launch(timed, f, 1, NULL, &event);
  NEED(clWaitForEvents(1, &event));
  NEED(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof began, &began, NULL));
  NEED(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof ended, &ended, NULL));
  printf("times rise: %d\n", began != 0 && began <= ended);
  NEED(clSetKernelArg(late, 0, sizeof shown, &shown));
  NEED(clEnqueueNDRangeKernel(queue, late, 1, NULL, &(size_t){16}, &(size_t){16}, 0, NULL, NULL));
  say_content("late", shown, 64);
  program = build(SOURCE, "");
  launch(queue, prepare("add", plain, 3), 64, NULL, NULL);
  say_content("built afterwards", plain, LARGE + 12);
  NEED(clReleaseMemObject(part));
  NEED(clReleaseMemObject(used));
  NEED(clReleaseProgram(first));
  NEED(clFinish(queue));
}

/* A kernel's argument was released, and is another one afterwards. */
static void released(void) {
  cl_mem gone = buffer_of(64, 0, NULL), buffer = filled(64);
  cl_kernel add = prepare("add", gone, 1);
  NEED(clReleaseMemObject(gone));
  stay();
  NEED(clSetKernelArg(add, 0, sizeof buffer, &buffer));
  launch(queue, add, 16, NULL, NULL);
  say_content("added", buffer, 64);
}

static volatile int is_over;

static void *add_and_read(void *counted) {
  cl_command_queue own = new_queue(0);
  cl_mem buffer = filled(LARGE);
  cl_kernel add = prepare("add", buffer, 1);
  unsigned char *data = pattern(LARGE, 1), *got = malloc(LARGE);
  cl_int first = 0, now = 0;
  memcpy(&first, data, sizeof first);
  int rounds = 0, wrong = 0;
  for (; !is_over; rounds++) {
    cl_event event;
    launch(own, add, 1, NULL, &event);
    NEED(clEnqueueReadBuffer(own, buffer, CL_FALSE, 0, 4, &now, 1, &event, NULL));
    NEED(clEnqueueWriteBuffer(own, buffer, CL_FALSE, 4, LARGE - 4, data + 4, 0, NULL, NULL));
    NEED(clEnqueueReadBuffer(own, buffer, CL_TRUE, 4, LARGE - 4, got + 4, 0, NULL, NULL));
    wrong += now != first + rounds + 1 || memcmp(got + 4, data + 4, LARGE - 4) != 0;
    NEED(clReleaseEvent(event));
    cl_mem little = buffer_of(64, CL_MEM_COPY_HOST_PTR, data);
    NEED(clReleaseMemObject(little));
  }
  *(int *)counted = wrong;
  return NULL;
}

/* Two threads go on all the time. */
static void busy(void) {
  pthread_t threads[2];
  int wrong[2];
  for (int i = 0; i < 2; i++)
    pthread_create(&threads[i], NULL, add_and_read, &wrong[i]);
  stay();
  is_over = 1;
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  printf("wrong: %d %d\n", wrong[0], wrong[1]);
}

/* What waits for the user: more than the proxy holds for what runs. */
static void held(void) {
  cl_event gate = user_event();
  cl_mem buffer[4];
  unsigned char *data = pattern(LARGE, 1);
  for (int i = 0; i < 4; i++) {
    buffer[i] = buffer_of(LARGE, 0, NULL);
    NEED(clEnqueueWriteBuffer(queue, buffer[i], CL_FALSE, 0, LARGE, data, 1, &gate, NULL));
  }
  NEED(clFlush(queue));
  stay();
  NEED(clSetUserEventStatus(gate, CL_COMPLETE));
  for (int i = 0; i < 4; i++)
    say_content("written", buffer[i], LARGE);
}

static void mapped(void) {
  cl_mem buffer = filled(64);
  void *at = map(buffer, CL_MAP_WRITE, 0, 64);
  stay();
  memset(at, 1, 64);
  unmap(buffer, at);
  say_content("unmapped", buffer, 64);
}

PROGRAM(SCENARIO(moved), SCENARIO(released), SCENARIO(busy), SCENARIO(held), SCENARIO(mapped))
