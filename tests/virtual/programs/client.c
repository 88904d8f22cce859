/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A client of OpenCL 1.2 for what the clients' own suites do not show.

     client SCENARIO

   Prints what it finds, in the same words whatever the device: the same lines are asked of the
   node's own OpenCL and of a borrowed device. Exit code 3 where a call fails that should not. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 1 << 16, LARGE = 24 << 20, LARGE_READS = 4 };

static cl_platform_id platform;
static cl_device_id device;
static cl_context context;
static cl_command_queue queue;
static cl_program program;

static const char SOURCE[] =
    "kernel void add(global int *to, int what) { to[get_global_id(0)] += what; }\n"
    "kernel void slow(global int *to, int times) {\n"
    "  int sum = to[0];\n"
    "  for (int i = 0; i < times; i++) sum = sum * 1103515245 + 12345;\n"
    "  to[0] = sum;\n"
    "}\n"
    "kernel void local_sum(global int *to, local int *room) {\n"
    "  room[get_local_id(0)] = to[get_global_id(0)];\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  to[get_global_id(0)] = room[get_local_size(0) - 1 - get_local_id(0)];\n"
    "}\n"
    "kernel void say(int what) { printf(\"kernel says %d\\n\", what); }\n";

static void need(cl_int status, const char *what) {
  if (status == CL_SUCCESS)
    return;
  fprintf(stderr, "%s: %d\n", what, status);
  exit(3);
}
#define NEED(call) need(call, #call)

static cl_command_queue new_queue(cl_command_queue_properties properties) {
  cl_int status;
  cl_command_queue made = clCreateCommandQueue(context, device, properties, &status);
  need(status, "queue");
  return made;
}

static cl_program build(const char *source, const char *options) {
  cl_int status;
  cl_program made = clCreateProgramWithSource(context, 1, &source, NULL, &status);
  need(status, "program");
  NEED(clBuildProgram(made, 1, &device, options, NULL, NULL));
  return made;
}

static void begin(void) {
  cl_int status;
  NEED(clGetPlatformIDs(1, &platform, NULL));
  NEED(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
  need(status, "context");
  queue = new_queue(0);
  program = build(SOURCE, "");
}

static cl_mem buffer_of(size_t bytes, cl_mem_flags flags, void *host) {
  cl_int status;
  cl_mem made = clCreateBuffer(context, flags, bytes, host, &status);
  need(status, "buffer");
  return made;
}

static cl_kernel kernel_of(const char *name) {
  cl_int status;
  cl_kernel made = clCreateKernel(program, name, &status);
  need(status, name);
  return made;
}

static cl_kernel prepare(const char *name, cl_mem to, int what) {
  cl_kernel made = kernel_of(name);
  NEED(clSetKernelArg(made, 0, sizeof to, &to));
  NEED(clSetKernelArg(made, 1, sizeof what, &what));
  return made;
}

static void launch(cl_command_queue where, cl_kernel kernel, size_t size, cl_event after,
                   cl_event *event) {
  NEED(clEnqueueNDRangeKernel(where, kernel, 1, NULL, &size, NULL, after != NULL,
                              after != NULL ? &after : NULL, event));
}

static unsigned long digest(const void *bytes, size_t length) {
  unsigned long sum = 5381;
  for (size_t i = 0; i < length; i++)
    sum = sum * 33 + ((const unsigned char *)bytes)[i];
  return sum;
}

static unsigned char *pattern(size_t length, unsigned seed) {
  unsigned char *made = malloc(length);
  if (made == NULL)
    exit(4);
  for (size_t i = 0; i < length; i++)
    made[i] = (unsigned char)((i + seed) * 2654435761U >> 24);
  return made;
}

static void say_content(const char *what, cl_mem buffer, size_t bytes) {
  unsigned char *got = malloc(bytes);
  NEED(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, bytes, got, 0, NULL, NULL));
  printf("%s: %lx\n", what, digest(got, bytes));
  free(got);
}

/* ---- errors that OpenCL wants at once, and those that may come later ---- */

static void errors(void) {
  size_t size = 16, none = 0, local = 3, much = (size_t)1 << 40;
  int value = 1;
  cl_int status;
  cl_ulong most;
  cl_mem small = buffer_of(64, CL_MEM_COPY_HOST_PTR, pattern(64, 9));
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
  say_content("untouched", small, sizeof room);
}

/* A launch without all arguments is refused, at once or by the next call that waits. */
static void unset(void) {
  size_t size = 16;
  cl_kernel bare = kernel_of("add");
  cl_int first = clEnqueueNDRangeKernel(queue, bare, 1, NULL, &size, NULL, 0, NULL, NULL);
  cl_int then = clFinish(queue);
  printf("unset argument: %d\n", first != CL_SUCCESS ? first : then);
  printf("afterwards: %d\n", clFinish(queue));
}

/* ---- events ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t called = PTHREAD_COND_INITIALIZER;
static int calls;

static void CL_CALLBACK on_event(cl_event event, cl_int status, void *data) {
  (void)event;
  pthread_mutex_lock(&lock);
  *(cl_int *)data = status;
  calls++;
  pthread_cond_signal(&called);
  pthread_mutex_unlock(&lock);
}

static void await_calls(int count) {
  pthread_mutex_lock(&lock);
  while (calls < count)
    pthread_cond_wait(&called, &lock);
  pthread_mutex_unlock(&lock);
}

static cl_int status_of(cl_event event) {
  cl_int status = 99;
  NEED(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
  return status;
}

static cl_event user_event(void) {
  cl_int status;
  cl_event made = clCreateUserEvent(context, &status);
  need(status, "user event");
  return made;
}

static void callbacks(void) {
  cl_mem buffer = buffer_of(COUNT * sizeof(cl_int), 0, NULL);
  cl_int zero = 0, heard[3] = {99, 99, 99};
  NEED(clEnqueueFillBuffer(queue, buffer, &zero, 4, 0, COUNT * 4, 0, NULL, NULL));
  cl_kernel add = prepare("add", buffer, 3);
  cl_event gate = user_event(), event, later;
  launch(queue, add, COUNT, gate, &event);
  NEED(clEnqueueMarkerWithWaitList(queue, 1, &event, &later));
  NEED(clSetEventCallback(event, CL_COMPLETE, on_event, &heard[0]));
  NEED(clSetEventCallback(later, CL_COMPLETE, on_event, &heard[1]));
  NEED(clFlush(queue));
  usleep(50000);
  printf("waits for its gate: %d, %d called\n", status_of(event) > CL_COMPLETE, calls);
  NEED(clSetUserEventStatus(gate, CL_COMPLETE));
  await_calls(2);
  printf("heard %d %d\n", heard[0], heard[1]);
  NEED(clSetEventCallback(event, CL_COMPLETE, on_event, &heard[2])); /* it is complete */
  await_calls(3);
  printf("heard later %d\n", heard[2]);
  say_content("added", buffer, COUNT * 4);
  printf("second status: %d\n", clSetUserEventStatus(gate, CL_COMPLETE));
}

/* A gate that fails takes what waits for it along, and the queue goes on. */
static void failed_gate(void) {
  cl_mem buffer = buffer_of(64, 0, NULL);
  cl_int zero = 0;
  NEED(clEnqueueFillBuffer(queue, buffer, &zero, 4, 0, 64, 0, NULL, NULL));
  NEED(clFinish(queue));
  cl_command_queue other = new_queue(0);
  cl_event gate = user_event(), event;
  launch(other, prepare("add", buffer, 3), 16, gate, &event);
  NEED(clFlush(other));
  NEED(clSetUserEventStatus(gate, -5));
  printf("wait: %d\n", clWaitForEvents(1, &event));
  printf("failed: %d\n", status_of(event) < 0);
  say_content("not added", buffer, 64);
}

static void *open_gate(void *gate) {
  usleep(100000);
  NEED(clSetUserEventStatus(*(cl_event *)gate, CL_COMPLETE));
  return NULL;
}

static void threads(void) {
  cl_mem buffer = buffer_of(64, 0, NULL);
  cl_int zero = 0;
  cl_event gate = user_event(), event;
  pthread_t thread;
  NEED(clEnqueueFillBuffer(queue, buffer, &zero, 4, 0, 64, 0, NULL, NULL));
  launch(queue, prepare("add", buffer, 5), 16, gate, &event);
  pthread_create(&thread, NULL, open_gate, &gate);
  NEED(clFinish(queue)); /* the other thread's event comes while this one waits */
  pthread_join(thread, NULL);
  printf("complete: %d\n", status_of(event));
  say_content("added", buffer, 64);
}

static void profiling(void) {
  static const cl_profiling_info NAMES[] = {CL_PROFILING_COMMAND_QUEUED,
                                            CL_PROFILING_COMMAND_SUBMIT, CL_PROFILING_COMMAND_START,
                                            CL_PROFILING_COMMAND_END};
  cl_command_queue timed = new_queue(CL_QUEUE_PROFILING_ENABLE);
  cl_mem buffer = buffer_of(COUNT * 4, 0, NULL);
  cl_event event[2];
  cl_ulong times[8];
  launch(timed, prepare("add", buffer, 1), COUNT, NULL, &event[0]);
  launch(timed, prepare("add", buffer, 1), COUNT, NULL, &event[1]);
  NEED(clFinish(timed));
  for (int i = 0; i < 8; i++)
    NEED(clGetEventProfilingInfo(event[i / 4], NAMES[i % 4], sizeof *times, &times[i], NULL));
  int rising = times[0] != 0 && times[3] <= times[6];
  for (int i = 0; i < 8; i++)
    rising &= i % 4 == 0 || times[i - 1] <= times[i];
  printf("times rise: %d\n", rising);
  cl_event bare;
  cl_ulong time;
  launch(queue, prepare("add", buffer, 1), COUNT, NULL, &bare);
  NEED(clFinish(queue));
  printf("without the property: %d\n",
         clGetEventProfilingInfo(bare, CL_PROFILING_COMMAND_END, sizeof time, &time, NULL));
}

/* ---- refusals: the driver refuses some calls (faults.c), and the program must hear of it ---- */

/* All launches are refused. */
static void refused_launches(void) {
  cl_mem buffer = buffer_of(64, CL_MEM_COPY_HOST_PTR, pattern(64, 1));
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

/* One of each call that the proxy answers for: whether any refusal was heard. */
static void heard(void) {
  const cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
  const cl_image_desc form = {
      .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 16, .image_height = 16};
  const size_t origin[3] = {0}, all[3] = {16, 16, 1}, bytes[3] = {16, 4, 1};
  unsigned char room[1024] = {0};
  const cl_uint color[4] = {1, 2, 3, 4};
  cl_int status, worst = 0, zero = 0;
#define HEAR(call) (status = (call), worst = status < worst ? status : worst)
  cl_event gate = clCreateUserEvent(context, &status), event;
  HEAR(status);
  HEAR(clSetUserEventStatus(gate, CL_COMPLETE));
  HEAR(clFinish(queue));
  if (worst == 0) /* else nothing ends that waits for it */
    HEAR(clEnqueueMarkerWithWaitList(queue, 1, &gate, &event));
  cl_mem one = buffer_of(1024, 0, NULL), two = buffer_of(1024, 0, NULL);
  cl_mem image = clCreateImage(context, 0, &format, &form, NULL, &status);
  HEAR(status);
  cl_mem picture = clCreateImage(context, 0, &format, &form, NULL, &status);
  HEAR(status);
  cl_kernel add = prepare("add", one, 1);
  HEAR(clEnqueueFillBuffer(queue, one, &zero, 4, 0, 1024, 0, NULL, NULL));
  HEAR(clEnqueueWriteBuffer(queue, two, CL_FALSE, 0, 1024, room, 0, NULL, NULL));
  HEAR(clEnqueueCopyBuffer(queue, one, two, 0, 0, 64, 0, NULL, NULL));
  HEAR(clEnqueueNDRangeKernel(queue, add, 1, NULL, all, NULL, 0, NULL, NULL));
  HEAR(clEnqueueTask(queue, add, 0, NULL, NULL));
  HEAR(clEnqueueMigrateMemObjects(queue, 1, &one, 0, 0, NULL, NULL));
  HEAR(clEnqueueBarrierWithWaitList(queue, 0, NULL, NULL));
  HEAR(clEnqueueCopyBufferRect(queue, one, two, origin, origin, bytes, 0, 0, 0, 0, 0, NULL, NULL));
  HEAR(clEnqueueWriteBufferRect(queue, one, CL_FALSE, origin, origin, bytes, 0, 0, 0, 0, room, 0,
                                NULL, NULL));
  HEAR(clEnqueueReadBufferRect(queue, one, CL_FALSE, origin, origin, bytes, 0, 0, 0, 0, room, 0,
                               NULL, NULL));
  HEAR(clEnqueueFillImage(queue, image, color, origin, all, 0, NULL, NULL));
  HEAR(clEnqueueWriteImage(queue, picture, CL_FALSE, origin, all, 0, 0, room, 0, NULL, NULL));
  HEAR(clEnqueueCopyImage(queue, image, picture, origin, origin, all, 0, NULL, NULL));
  HEAR(clEnqueueCopyImageToBuffer(queue, image, one, origin, all, 0, 0, NULL, NULL));
  HEAR(clEnqueueCopyBufferToImage(queue, one, image, 0, origin, all, 0, NULL, NULL));
  HEAR(clEnqueueReadImage(queue, image, CL_FALSE, origin, all, 0, 0, room, 0, NULL, NULL));
  HEAR(clEnqueueReadBuffer(queue, two, CL_FALSE, 0, 1024, room, 0, NULL, NULL));
  HEAR(clFinish(queue));
#undef HEAR
  printf("heard: %d\n", worst);
}

/* ---- reads, writes, maps ---- */

/* Large reads of an out-of-order queue: an event says that all bytes are there, not the last. */
static void order(void) {
  cl_command_queue loose = new_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  unsigned char *data[LARGE_READS], *got[LARGE_READS];
  cl_mem buffer[LARGE_READS];
  cl_event written[LARGE_READS], read[LARGE_READS];
  for (unsigned i = 0; i < LARGE_READS; i++) {
    data[i] = pattern(LARGE, i);
    got[i] = calloc(LARGE, 1);
    buffer[i] = buffer_of(LARGE, 0, NULL);
    NEED(clEnqueueWriteBuffer(loose, buffer[i], CL_FALSE, 0, LARGE, data[i], 0, NULL, &written[i]));
  }
  for (unsigned i = LARGE_READS; i-- > 0;)
    NEED(clEnqueueReadBuffer(loose, buffer[i], CL_FALSE, 0, LARGE, got[i], 1, &written[i],
                             &read[i]));
  NEED(clFlush(loose));
  for (unsigned i = 0; i < LARGE_READS; i++) {
    NEED(clWaitForEvents(1, &read[i]));
    printf("read %u: %d\n", i, memcmp(data[i], got[i], LARGE) == 0);
  }
}

/* The pointer of a blocking write is free once the call returned; that of another, once its event
   is complete. */
static void overwrite(void) {
  unsigned char *data = pattern(LARGE, 1);
  cl_mem first = buffer_of(LARGE, 0, NULL), second = buffer_of(LARGE, 0, NULL);
  cl_event event;
  NEED(clEnqueueWriteBuffer(queue, first, CL_TRUE, 0, LARGE, data, 0, NULL, NULL));
  memset(data, 1, LARGE);
  NEED(clEnqueueWriteBuffer(queue, second, CL_FALSE, 0, LARGE, data, 0, NULL, &event));
  NEED(clWaitForEvents(1, &event));
  memset(data, 2, LARGE);
  say_content("first", first, LARGE);
  say_content("second", second, LARGE);
}

static void *map(cl_mem buffer, cl_map_flags flags, size_t offset, size_t size) {
  cl_int status;
  void *at =
      clEnqueueMapBuffer(queue, buffer, CL_TRUE, flags, offset, size, 0, NULL, NULL, &status);
  need(status, "map");
  return at;
}

static void maps(void) {
  unsigned char *host = pattern(COUNT, 7);
  cl_mem used = buffer_of(COUNT, CL_MEM_USE_HOST_PTR, host);
  cl_mem copied = buffer_of(COUNT, CL_MEM_COPY_HOST_PTR, host);
  unsigned char *at = map(used, CL_MAP_READ | CL_MAP_WRITE, 0, COUNT);
  printf("its own pointer: %d\n", at == host);
  at[5] ^= 0xff;
  NEED(clEnqueueUnmapMemObject(queue, used, at, 0, NULL, NULL));
  say_content("used", used, COUNT);
  at = map(used, CL_MAP_READ, 100, 50);
  printf("inside: %d\n", at == host + 100);
  NEED(clEnqueueUnmapMemObject(queue, used, at, 0, NULL, NULL));
  cl_uint count = 9;
  unsigned char *one = map(copied, CL_MAP_READ, 0, 64), *two = map(copied, CL_MAP_READ, 32, 64);
  NEED(clGetMemObjectInfo(copied, CL_MEM_MAP_COUNT, sizeof count, &count, NULL));
  printf("mapped %u times, same bytes: %d\n", count, memcmp(one + 32, two, 32) == 0);
  NEED(clEnqueueUnmapMemObject(queue, copied, one, 0, NULL, NULL));
  NEED(clEnqueueUnmapMemObject(queue, copied, two, 0, NULL, NULL));
  printf("again: %d\n", clEnqueueUnmapMemObject(queue, copied, host, 0, NULL, NULL));
  at = map(copied, CL_MAP_WRITE_INVALIDATE_REGION, 0, COUNT);
  memset(at, 9, COUNT);
  NEED(clEnqueueUnmapMemObject(queue, copied, at, 0, NULL, NULL));
  say_content("invalidated", copied, COUNT);
  cl_buffer_region region = {.origin = COUNT / 2, .size = COUNT / 4};
  cl_int status;
  cl_mem part =
      clCreateSubBuffer(copied, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
  need(status, "sub-buffer");
  at = map(part, CL_MAP_WRITE, 0, 16);
  memset(at, 3, 16);
  NEED(clEnqueueUnmapMemObject(queue, part, at, 0, NULL, NULL));
  cl_kernel add = prepare("add", part, 16);
  launch(queue, add, COUNT / 16, NULL, NULL);
  say_content("through a part", copied, COUNT);
  cl_event mapped, unmapped;
  at =
      clEnqueueMapBuffer(queue, copied, CL_FALSE, CL_MAP_READ, 0, COUNT, 0, NULL, &mapped, &status);
  need(status, "map");
  NEED(clWaitForEvents(1, &mapped));
  printf("after its event: %lx\n", digest(at, COUNT));
  NEED(clEnqueueUnmapMemObject(queue, copied, at, 1, &mapped, &unmapped));
  NEED(clWaitForEvents(1, &unmapped));
}

static void rectangles(void) {
  const size_t from[3] = {3, 2, 1}, to[3] = {5, 4, 3}, part[3] = {7, 6, 4};
  unsigned char *data = pattern(COUNT, 3), *got = calloc(COUNT, 1);
  cl_mem one = buffer_of(COUNT, CL_MEM_COPY_HOST_PTR, data), two = buffer_of(COUNT, 0, NULL);
  cl_int zero = 0;
  NEED(clEnqueueFillBuffer(queue, two, &zero, 4, 0, COUNT, 0, NULL, NULL));
  NEED(clEnqueueCopyBufferRect(queue, one, two, from, to, part, 16, 256, 32, 512, 0, NULL, NULL));
  NEED(clEnqueueCopyBuffer(queue, one, two, 100, COUNT - 400, 300, 0, NULL, NULL));
  say_content("copied", two, COUNT);
  NEED(clEnqueueReadBufferRect(queue, two, CL_TRUE, to, from, part, 32, 512, 64, 1024, got, 0, NULL,
                               NULL));
  printf("read: %lx\n", digest(got, COUNT));
  NEED(clEnqueueWriteBufferRect(queue, one, CL_TRUE, to, from, part, 32, 512, 64, 1024, got, 0,
                                NULL, NULL));
  say_content("written", one, COUNT);
}

/* Small reads while another thread writes much: each is right. */
static void *write_much(void *data) {
  cl_command_queue own = new_queue(0);
  cl_mem buffer = buffer_of(LARGE, 0, NULL);
  for (int i = 0; i < 4; i++)
    NEED(clEnqueueWriteBuffer(own, buffer, CL_TRUE, 0, LARGE, data, 0, NULL, NULL));
  return buffer;
}

static void beside(void) {
  unsigned char *data = pattern(LARGE, 5);
  cl_mem small = buffer_of(4, 0, NULL);
  pthread_t thread;
  int right = 0;
  void *buffer;
  pthread_create(&thread, NULL, write_much, data);
  for (cl_int i = 0; i < 50; i++) {
    cl_int got = -1;
    NEED(clEnqueueWriteBuffer(queue, small, CL_FALSE, 0, 4, &i, 0, NULL, NULL));
    NEED(clEnqueueReadBuffer(queue, small, CL_TRUE, 0, 4, &got, 0, NULL, NULL));
    right += got == i;
  }
  pthread_join(thread, &buffer);
  printf("right: %d\n", right);
  say_content("much", buffer, LARGE);
}

/* ---- programs and kernels ---- */

/* Whether kernels are told the version that the device has, and lines of their own source. */
static void kernel_says(void) {
  char version[128];
  int told[2], major, minor;
  cl_mem buffer = buffer_of(sizeof told, 0, NULL);
  cl_kernel f = kernel_of("f");
  NEED(clSetKernelArg(f, 0, sizeof buffer, &buffer));
  launch(queue, f, 1, NULL, NULL);
  NEED(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof told, told, 0, NULL, NULL));
  NEED(clGetDeviceInfo(device, CL_DEVICE_VERSION, sizeof version, version, NULL));
  if (sscanf(version, "OpenCL %d.%d", &major, &minor) != 2)
    exit(4);
  printf("the device's version: %d, line %d\n", told[0] == 100 * major + 10 * minor, told[1]);
}

static void kernels(void) {
  cl_mem buffer = buffer_of(COUNT * 4, CL_MEM_COPY_HOST_PTR, pattern(COUNT * 4, 2));
  cl_kernel local_sum = kernel_of("local_sum"), all[8];
  size_t size = COUNT, group = 64, offset = 64, half = COUNT / 2;
  cl_uint count = 0;
  NEED(clSetKernelArg(local_sum, 0, sizeof buffer, &buffer));
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
  size_t length;
  NEED(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof length, &length, NULL));
  unsigned char *binary = malloc(length);
  NEED(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL));
  cl_int status, loaded;
  const unsigned char *given = binary;
  program = clCreateProgramWithBinary(context, 1, &device, &length, &given, &loaded, &status);
  need(status, "binary");
  NEED(clBuildProgram(program, 1, &device, "", NULL, NULL));
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

static void compile_and_link(void) {
  const char *header = "int twice(int a);", *two = "int twice(int a) { return 2 * a; }";
  const char *one = "#include \"twice.h\"\nkernel void f(global int *a) { a[0] = twice(21); }";
  const char *name = "twice.h";
  cl_int status, got = 0;
  cl_program parts[2], as_header;
  as_header = clCreateProgramWithSource(context, 1, &header, NULL, &status);
  need(status, "header");
  parts[0] = clCreateProgramWithSource(context, 1, &one, NULL, &status);
  parts[1] = clCreateProgramWithSource(context, 1, &two, NULL, &status);
  NEED(clCompileProgram(parts[0], 1, &device, "", 1, &as_header, &name, NULL, NULL));
  NEED(clCompileProgram(parts[1], 1, &device, "", 0, NULL, NULL, NULL, NULL));
  program = clLinkProgram(context, 1, &device, "", 2, parts, NULL, NULL, &status);
  need(status, "link");
  cl_mem buffer = buffer_of(4, 0, NULL);
  cl_kernel f = kernel_of("f");
  NEED(clSetKernelArg(f, 0, sizeof buffer, &buffer));
  launch(queue, f, 1, NULL, NULL);
  NEED(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 4, &got, 0, NULL, NULL));
  printf("linked: %d\n", got);
}

static void images(void) {
  enum { SIDE = 64 };
  const cl_image_format format = {.image_channel_order = CL_RGBA,
                                  .image_channel_data_type = CL_UNSIGNED_INT8};
  const cl_image_desc form = {
      .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = SIDE, .image_height = SIDE};
  const size_t origin[3] = {0}, all[3] = {SIDE, SIDE, 1}, part[3] = {16, 8, 1}, at[3] = {8, 16, 0};
  const cl_uint colour[4] = {1, 2, 3, 4};
  unsigned char *data = pattern(SIDE * SIDE * 4, 4), *got = calloc(SIDE * SIDE, 4);
  cl_int status;
  cl_mem one = clCreateImage(context, CL_MEM_COPY_HOST_PTR, &format, &form, data, &status);
  need(status, "image");
  cl_mem two = clCreateImage(context, CL_MEM_WRITE_ONLY, &format, &form, NULL, &status);
  need(status, "image");
  NEED(clEnqueueFillImage(queue, one, colour, at, part, 0, NULL, NULL));
  program = build("kernel void turn(read_only image2d_t from, write_only image2d_t to, sampler_t s)"
                  "{ int2 at = (int2)(get_global_id(0), get_global_id(1));"
                  "  write_imageui(to, at.yx, read_imageui(from, s, at)); }",
                  "");
  cl_sampler sampler =
      clCreateSampler(context, CL_FALSE, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST, &status);
  need(status, "sampler");
  cl_kernel turn = kernel_of("turn");
  NEED(clSetKernelArg(turn, 0, sizeof one, &one));
  NEED(clSetKernelArg(turn, 1, sizeof two, &two));
  NEED(clSetKernelArg(turn, 2, sizeof(cl_sampler), &sampler));
  NEED(clEnqueueNDRangeKernel(queue, turn, 2, NULL, all, NULL, 0, NULL, NULL));
  NEED(clEnqueueReadImage(queue, two, CL_TRUE, origin, all, 0, 0, got, 0, NULL, NULL));
  printf("turned: %lx\n", digest(got, SIDE * SIDE * 4));
  NEED(clEnqueueWriteImage(queue, one, CL_TRUE, at, part, SIDE * 4, 0, data, 0, NULL, NULL));
  NEED(clEnqueueCopyImage(queue, one, two, at, origin, part, 0, NULL, NULL));
  size_t pitch = 0;
  unsigned char *mapped = clEnqueueMapImage(queue, two, CL_TRUE, CL_MAP_READ, origin, part, &pitch,
                                            NULL, 0, NULL, NULL, &status);
  need(status, "map");
  for (size_t row = 0; row < part[1]; row++)
    printf("row %zu: %lx\n", row, digest(mapped + row * pitch, part[0] * 4));
  NEED(clEnqueueUnmapMemObject(queue, two, mapped, 0, NULL, NULL));
  NEED(clFinish(queue));
}

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
  device = parts[0];
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
  need(status, "context");
  queue = new_queue(0);
  program = build(SOURCE, "");
  cl_mem buffer = buffer_of(64, CL_MEM_COPY_HOST_PTR, pattern(64, 1));
  launch(queue, prepare("add", buffer, 1), 16, NULL, NULL);
  say_content("added", buffer, 64);
}

static void print(void) {
  cl_kernel say = kernel_of("say");
  for (int i = 1; i <= 3; i++) {
    NEED(clSetKernelArg(say, 0, sizeof i, &i));
    launch(queue, say, 1, NULL, NULL);
  }
  NEED(clFinish(queue));
}

/* ---- processes ---- */

/* A queue is finished again and again, of which there is something to finish ten times. */
static void idle(void) {
  cl_mem buffer = buffer_of(64, CL_MEM_COPY_HOST_PTR, pattern(64, 1));
  cl_kernel add = prepare("add", buffer, 1);
  for (int i = 0; i < 1000; i++) {
    if (i % 100 == 0)
      launch(queue, add, 16, NULL, NULL);
    NEED(clFinish(queue));
  }
  say_content("added", buffer, 64);
}

/* Work is pending that would take minutes; nothing is waited for or released. */
static void leave(void) {
  cl_mem buffer = buffer_of(64, 0, NULL);
  cl_kernel slow = prepare("slow", buffer, 20000000);
  for (int i = 0; i < 20; i++)
    launch(queue, slow, 1, NULL, NULL);
  NEED(clFlush(queue));
  puts("leaves");
}

/* A child of fork has no device; its parent keeps its own. */
static void split(void) {
  cl_mem buffer = buffer_of(64, CL_MEM_COPY_HOST_PTR, pattern(64, 1));
  cl_int got[16];
  NEED(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 64, got, 0, NULL, NULL));
  pid_t child = fork();
  if (child == 0) {
    cl_int status = clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 64, got, 0, NULL, NULL);
    status |= clFinish(queue);
    _exit(status < 0 ? 7 : 8);
  }
  int ended;
  waitpid(child, &ended, 0);
  printf("child: %d\n", WIFEXITED(ended) ? WEXITSTATUS(ended) : -1);
  launch(queue, prepare("add", buffer, 1), 16, NULL, NULL);
  say_content("parent", buffer, 64);
}

/* Works until its proxy is gone: says so, and what calls then return. */
static void bereaved(void) {
  cl_mem buffer = buffer_of(64, 0, NULL);
  cl_kernel slow = prepare("slow", buffer, 1000000);
  cl_event event;
  cl_int status = CL_SUCCESS;
  puts("works");
  fflush(stdout);
  while (status == CL_SUCCESS) {
    status = clEnqueueNDRangeKernel(queue, slow, 1, NULL, &(size_t){1}, NULL, 0, NULL, &event);
    if (status == CL_SUCCESS)
      status = clWaitForEvents(1, &event);
  }
  printf("ended: %d\n", status < 0);
  cl_int made;
  clCreateBuffer(context, 0, 64, NULL, &made);
  cl_int got[16];
  status = clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 64, got, 0, NULL, NULL);
  printf("read: %d, finish: %d\n", status < 0, clFinish(queue) < 0);
  NEED(clReleaseMemObject(buffer));
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

/* All devices of the first platform in one context: each computes on one buffer in turn. */
static void together(void) {
  cl_device_id all[8];
  cl_uint count;
  cl_int status;
  NEED(clGetPlatformIDs(1, &platform, NULL));
  NEED(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 8, all, &count));
  context = clCreateContext(NULL, count, all, NULL, NULL, &status);
  need(status, "context");
  const char *source = SOURCE;
  program = clCreateProgramWithSource(context, 1, &source, NULL, &status);
  NEED(clBuildProgram(program, count, all, "", NULL, NULL));
  cl_mem buffer = buffer_of(64, CL_MEM_COPY_HOST_PTR, pattern(64, 1));
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

/* ---- moves: the test has the process moved to another device meanwhile ---- */

static void stay(void) {
  puts("ready");
  (void)getchar();
}

static cl_program linked(void) {
  const char *header = "int twice(int a);", *two = "int twice(int a) { return 2 * a; }";
  const char *one =
      "#include \"twice.h\"\nkernel void f(global int *a) { a[0] = twice(a[0]) + N; }";
  const char *name = "twice.h";
  cl_int status;
  cl_program as_header = clCreateProgramWithSource(context, 1, &header, NULL, &status);
  cl_program parts[2] = {clCreateProgramWithSource(context, 1, &one, NULL, &status),
                         clCreateProgramWithSource(context, 1, &two, NULL, &status)};
  NEED(clCompileProgram(parts[0], 1, &device, "-DN=100", 1, &as_header, &name, NULL, NULL));
  NEED(clCompileProgram(parts[1], 1, &device, "", 0, NULL, NULL, NULL, NULL));
  cl_program made = clLinkProgram(context, 1, &device, "", 2, parts, NULL, NULL, &status);
  need(status, "link");
  NEED(clReleaseProgram(as_header));
  NEED(clReleaseProgram(parts[0]));
  NEED(clReleaseProgram(parts[1]));
  return made;
}

/* Everything that a process can have, and all of it is as it was. */
static void moved(void) {
  enum { SIDE = 32 };
  const cl_image_format format = {.image_channel_order = CL_RGBA,
                                  .image_channel_data_type = CL_UNSIGNED_INT8};
  const cl_image_desc form = {
      .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = SIDE, .image_height = SIDE};
  const size_t origin[3] = {0}, all[3] = {SIDE, SIDE, 1};
  unsigned char *host = pattern(COUNT, 3), *got = calloc(SIDE * SIDE, 4);
  cl_int status;
  cl_mem plain = buffer_of(LARGE + 12, 0, NULL), used = buffer_of(COUNT, CL_MEM_USE_HOST_PTR, host);
  cl_mem hidden = buffer_of(64, CL_MEM_COPY_HOST_PTR | CL_MEM_HOST_NO_ACCESS, pattern(64, 8));
  cl_mem shown = buffer_of(64, 0, NULL);
  cl_buffer_region region = {.origin = COUNT / 2, .size = COUNT / 4};
  cl_mem part = clCreateSubBuffer(used, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
  need(status, "sub-buffer");
  cl_mem image = clCreateImage(context, CL_MEM_COPY_HOST_PTR, &format, &form,
                               pattern(SIDE * SIDE * 4, 4), &status);
  need(status, "image");
  cl_sampler sampler =
      clCreateSampler(context, CL_FALSE, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST, &status);
  need(status, "sampler");
  cl_command_queue timed = new_queue(CL_QUEUE_PROFILING_ENABLE);
  unsigned char *data = pattern(LARGE + 12, 6);
  cl_event written, done, gate = user_event();
  NEED(clEnqueueWriteBuffer(queue, plain, CL_FALSE, 0, LARGE + 12, data, 0, NULL, &written));
  cl_kernel add = prepare("add", part, 16);
  launch(timed, add, COUNT / 16, written, &done);
  cl_program first = program;
  program = build("kernel void turn(read_only image2d_t from, global uint *to, sampler_t s) {"
                  "  int2 at = (int2)(get_global_id(0), get_global_id(1));"
                  "  uint4 c = read_imageui(from, s, at.yx);"
                  "  to[at.y * 32 + at.x] = c.x + c.y + c.z + c.w; }",
                  "");
  cl_kernel turn = kernel_of("turn");
  NEED(clSetKernelArg(turn, 0, sizeof image, &image));
  NEED(clSetKernelArg(turn, 2, sizeof(cl_sampler), &sampler));
  program = linked();
  cl_kernel f = kernel_of("f");
  NEED(clSetKernelArg(f, 0, sizeof plain, &plain));
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
  NEED(clEnqueueReadImage(queue, image, CL_TRUE, origin, all, 0, 0, got, 0, NULL, NULL));
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

/* A kernel is older than its buffer, which it is told before the move. */
static void kernel_first(void) {
  cl_kernel add = kernel_of("add"), late = kernel_of("add");
  cl_mem buffer = buffer_of(64, CL_MEM_COPY_HOST_PTR, pattern(64, 1));
  cl_int what = 5;
  NEED(clSetKernelArg(add, 1, sizeof what, &what));
  NEED(clSetKernelArg(add, 0, sizeof buffer, &buffer));
  NEED(clSetKernelArg(late, 0, sizeof buffer, &buffer));
  launch(queue, add, 16, NULL, NULL);
  stay();
  launch(queue, add, 16, NULL, NULL);
  NEED(clSetKernelArg(late, 1, sizeof what, &what));
  launch(queue, late, 16, NULL, NULL);
  say_content("added three times", buffer, 64);
}

/* A kernel's argument was released, and is another one afterwards. */
static void released(void) {
  cl_mem gone = buffer_of(64, 0, NULL),
         buffer = buffer_of(64, CL_MEM_COPY_HOST_PTR, pattern(64, 1));
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
  cl_mem buffer = buffer_of(LARGE, CL_MEM_COPY_HOST_PTR, pattern(LARGE, 1));
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
  cl_mem buffer = buffer_of(64, CL_MEM_COPY_HOST_PTR, pattern(64, 1));
  void *at = map(buffer, CL_MAP_WRITE, 0, 64);
  stay();
  memset(at, 1, 64);
  NEED(clEnqueueUnmapMemObject(queue, buffer, at, 0, NULL, NULL));
  say_content("unmapped", buffer, 64);
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  static const struct {
    const char *name;
    void (*run)(void);
    int bare;
  } SCENARIOS[] = {
      {"across", across, 1},
      {"beside", beside, 0},
      {"bereaved", bereaved, 0},
      {"busy", busy, 0},
      {"callbacks", callbacks, 0},
      {"errors", errors, 0},
      {"failed_gate", failed_gate, 0},
      {"held", held, 0},
      {"heard", heard, 0},
      {"idle", idle, 0},
      {"images", images, 0},
      {"kernel_first", kernel_first, 0},
      {"kernels", kernels, 0},
      {"leave", leave, 0},
      {"link", compile_and_link, 0},
      {"mapped", mapped, 0},
      {"maps", maps, 0},
      {"moved", moved, 0},
      {"order", order, 0},
      {"overwrite", overwrite, 0},
      {"print", print, 0},
      {"profiling", profiling, 0},
      {"rectangles", rectangles, 0},
      {"refused_launches", refused_launches, 0},
      {"released", released, 0},
      {"split", split, 0},
      {"sub_devices", sub_devices, 0},
      {"threads", threads, 0},
      {"together", together, 1},
      {"unset", unset, 0},
  };
  for (size_t i = 0; argc == 2 && i < sizeof SCENARIOS / sizeof *SCENARIOS; i++) {
    if (strcmp(argv[1], SCENARIOS[i].name) != 0)
      continue;
    if (!SCENARIOS[i].bare)
      begin();
    SCENARIOS[i].run();
    return 0;
  }
  return 2;
}
