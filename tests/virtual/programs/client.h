/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the programs beside need: each is a client of OpenCL 1.2 of one subject.

     PROGRAM [SCENARIO]     all of them one after the other, where none is named

   It prints what it finds, in the same words whatever the device: the same lines are asked of the
   node's own OpenCL and of a borrowed device. Exit code 3 where a call fails that should not. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1 << 16, LARGE = 24 << 20 };

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

static const cl_image_format RGBA = {CL_RGBA, CL_UNSIGNED_INT8};
static const size_t ORIGIN[3];

static inline void need(cl_int status, const char *what) {
  if (status == CL_SUCCESS)
    return;
  fprintf(stderr, "%s: %d\n", what, status);
  exit(3);
}
#define NEED(call) need(call, #call)

static inline cl_command_queue new_queue(cl_command_queue_properties properties) {
  cl_int status;
  cl_command_queue made = clCreateCommandQueue(context, device, properties, &status);
  need(status, "queue");
  return made;
}

static inline cl_program build(const char *source, const char *options) {
  cl_int status;
  cl_program made = clCreateProgramWithSource(context, 1, &source, NULL, &status);
  need(status, "program");
  NEED(clBuildProgram(made, 0, NULL, options, NULL, NULL));
  return made;
}

static inline cl_program linked(void) {
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

/* The program once more, from what the compiler made of it. */
static inline cl_program of_binary(void) {
  size_t length;
  NEED(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof length, &length, NULL));
  unsigned char *binary = malloc(length);
  NEED(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL));
  cl_int status, loaded;
  const unsigned char *given = binary;
  cl_program made =
      clCreateProgramWithBinary(context, 1, &device, &length, &given, &loaded, &status);
  need(status, "binary");
  NEED(clBuildProgram(made, 1, &device, "", NULL, NULL));
  return made;
}

/* In one context: some devices of the first platform, of which `device` is the first. */
static inline void begin_with(cl_uint count, const cl_device_id *devices) {
  cl_int status;
  device = devices[0];
  context = clCreateContext(NULL, count, devices, NULL, NULL, &status);
  need(status, "context");
  queue = new_queue(0);
  program = build(SOURCE, "");
}

static inline void begin(void) {
  cl_platform_id platform;
  NEED(clGetPlatformIDs(1, &platform, NULL));
  NEED(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
  begin_with(1, &(cl_device_id){device});
}

static inline unsigned long digest(const void *bytes, size_t length) {
  unsigned long sum = 5381;
  for (size_t i = 0; i < length; i++)
    sum = sum * 33 + ((const unsigned char *)bytes)[i];
  return sum;
}

static inline unsigned char *pattern(size_t length, unsigned seed) {
  unsigned char *made = malloc(length);
  if (made == NULL)
    exit(4);
  for (size_t i = 0; i < length; i++)
    made[i] = (unsigned char)((i + seed) * 2654435761U >> 24);
  return made;
}

static inline cl_mem buffer_of(size_t bytes, cl_mem_flags flags, void *host) {
  cl_int status;
  cl_mem made = clCreateBuffer(context, flags, bytes, host, &status);
  need(status, "buffer");
  return made;
}

/* A buffer that has something in it. */
static inline cl_mem filled(size_t bytes) {
  return buffer_of(bytes, CL_MEM_COPY_HOST_PTR, pattern(bytes, 1));
}

static inline cl_mem part_of(cl_mem whole, size_t origin, size_t size) {
  cl_buffer_region region = {.origin = origin, .size = size};
  cl_int status;
  cl_mem made = clCreateSubBuffer(whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
  need(status, "sub-buffer");
  return made;
}

static inline cl_image_desc square(size_t side) {
  return (cl_image_desc){
      .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = side, .image_height = side};
}

static inline cl_mem image_of(size_t side, cl_mem_flags flags, void *host) {
  cl_image_desc form = square(side);
  cl_int status;
  cl_mem made = clCreateImage(context, flags, &RGBA, &form, host, &status);
  need(status, "image");
  return made;
}

static inline cl_sampler new_sampler(void) {
  cl_int status;
  cl_sampler made =
      clCreateSampler(context, CL_FALSE, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST, &status);
  need(status, "sampler");
  return made;
}

static inline void *map(cl_mem buffer, cl_map_flags flags, size_t offset, size_t size) {
  cl_int status;
  void *at =
      clEnqueueMapBuffer(queue, buffer, CL_TRUE, flags, offset, size, 0, NULL, NULL, &status);
  need(status, "map");
  return at;
}

static inline void unmap(cl_mem buffer, void *at) {
  NEED(clEnqueueUnmapMemObject(queue, buffer, at, 0, NULL, NULL));
}

static inline cl_kernel kernel_of(const char *name) {
  cl_int status;
  cl_kernel made = clCreateKernel(program, name, &status);
  need(status, name);
  return made;
}

/* A kernel whose first argument is known. */
static inline cl_kernel kernel_on(const char *name, cl_mem to) {
  cl_kernel made = kernel_of(name);
  NEED(clSetKernelArg(made, 0, sizeof to, &to));
  return made;
}

static inline cl_kernel prepare(const char *name, cl_mem to, int what) {
  cl_kernel made = kernel_on(name, to);
  NEED(clSetKernelArg(made, 1, sizeof what, &what));
  return made;
}

static inline void launch(cl_command_queue where, cl_kernel kernel, size_t size, cl_event after,
                          cl_event *event) {
  NEED(clEnqueueNDRangeKernel(where, kernel, 1, NULL, &size, NULL, after != NULL,
                              after != NULL ? &after : NULL, event));
}

static inline void say_content(const char *what, cl_mem buffer, size_t bytes) {
  unsigned char *got = malloc(bytes);
  NEED(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, bytes, got, 0, NULL, NULL));
  printf("%s: %lx\n", what, digest(got, bytes));
  free(got);
}

/* ---- Events */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t called = PTHREAD_COND_INITIALIZER;
static int calls;

static inline void CL_CALLBACK on_event(cl_event event, cl_int status, void *data) {
  (void)event;
  pthread_mutex_lock(&lock);
  *(cl_int *)data = status;
  calls++;
  pthread_cond_signal(&called);
  pthread_mutex_unlock(&lock);
}

static inline void await_calls(int count) {
  pthread_mutex_lock(&lock);
  while (calls < count)
    pthread_cond_wait(&called, &lock);
  pthread_mutex_unlock(&lock);
}

static inline cl_int status_of(cl_event event) {
  cl_int status = 99;
  NEED(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
  return status;
}

static inline cl_event user_event(void) {
  cl_int status;
  cl_event made = clCreateUserEvent(context, &status);
  need(status, "user event");
  return made;
}

/* ---- What a program is made of */

struct scenario {
  const char *name; /* the last one has none */
  void (*run)(void);
};
#define SCENARIO(name) {#name, name}
#define PROGRAM(...)                                                                               \
  int main(int argc, char **argv) {                                                                \
    return play(argc, argv, (struct scenario[]){__VA_ARGS__, {0}});                                \
  }

static inline int play(int argc, char **argv, const struct scenario *scenarios) {
  int count = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (; scenarios->name != NULL; scenarios++)
    if (argc < 2 || strcmp(argv[1], scenarios->name) == 0) {
      begin();
      scenarios->run();
      count++;
    }
  return count == 0 ? 2 : 0;
}
