/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Random programs of OpenCL 1.2, whose results do not depend on what runs when.

     random FIRST COUNT [ASK ANSWER]

   Prints a line for each program: its number, and a digest of all that it read. With two
   descriptors a program asks for a move at one random step, one in twenty at each step: a byte
   goes to ASK, and one comes back when the move is over. Half of them go on meanwhile. One program
   in four has two threads. Kernels come from one source that is built once.
   Exit code 3 where a call fails. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ITEMS = 64, BYTES = 4096, PART = 1024, LARGE = (5 << 20) / 2, SIDE = 16 };
enum { MOST_MEMS = 10, MOST_ROOTS = 64, MOST_KERNELS = 6, MOST_QUEUES = 3, MOST_KEPT = 256 };
enum { IMAGE_BYTES = SIDE * SIDE * 4, MOST_ARGUMENTS = 3, STEPS = 40 };

static cl_device_id device;
static cl_context context;
static cl_program program;
static int ask = -1, answer = -1;

static const char SOURCE[] =
    "kernel void add(global int *to, int what) { to[get_global_id(0)] += what; }\n"
    "kernel void blend(global int *to, global const int *from, int what) {\n"
    "  size_t i = get_global_id(0); to[i] = to[i] * 3 + from[i] * what; }\n"
    "kernel void turn(global int *to, local int *room) {\n"
    "  room[get_local_id(0)] = to[get_global_id(0)];\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  to[get_global_id(0)] = room[get_local_size(0) - 1 - get_local_id(0)]; }\n"
    "kernel void look(read_only image2d_t from, sampler_t how, global int *to) {\n"
    "  int i = get_global_id(0); uint4 c = read_imageui(from, how, (int2)(i % 16, i / 16));\n"
    "  to[i] += c.x + 3 * c.y + 5 * c.z + 7 * c.w; }\n"
    "kernel void paint(write_only image2d_t to, int what) {\n"
    "  int i = get_global_id(0);\n"
    "  write_imageui(to, (int2)(i % 16, i / 16), (uint4)(what + i, what * i, i, what) & 255u); }\n";

/* What arguments are: a buffer that is written or read, a number, local memory, an image, a
   sampler. */
static const struct {
  const char *name, *arguments;
} KERNELS[] = {{"add", "wn"}, {"blend", "wrn"}, {"turn", "wl"}, {"look", "isw"}, {"paint", "in"}};
enum { KINDS = sizeof KERNELS / sizeof *KERNELS };

/* Memory with the parts of it: its commands run one after the other. */
struct root {
  cl_event last;         /* of its commands, NULL: none, or no event was asked for */
  cl_command_queue by;   /* which that one is of */
  int is_mute;           /* then `by` has to be finished */
  unsigned char *pinned; /* it is mapped here */
  struct memory *pinned_by;
};

struct memory {
  cl_mem mem;
  struct root *root;
  size_t size;
  int is_image, is_part, extra; /* extra: retains */
};

struct kernel {
  cl_kernel kernel;
  int kind;
  struct memory *holds[MOST_ARGUMENTS];
  cl_sampler sampler;
  int is_set[MOST_ARGUMENTS];
};

struct queue {
  cl_command_queue queue;
  int is_loose;
};

struct run {
  uint64_t random;
  int moves, steps;
  uint64_t digest;
  struct root roots[MOST_ROOTS];
  int root_count;
  struct memory *mems[MOST_MEMS];
  struct kernel *kernels[MOST_KERNELS];
  struct queue queues[MOST_QUEUES];
  cl_event gate; /* a user event that commands may wait for */
  void *kept[MOST_KEPT];
  size_t kept_bytes[MOST_KEPT]; /* of a read, which is digested at the end */
  int kept_count, asked;
  struct memory *freed[MOST_ROOTS]; /* pointers stay good for who compares them */
  int freed_count;
};

static void need(cl_int status, const char *what, int line) {
  if (status == CL_SUCCESS)
    return;
  fprintf(stderr, "line %d: %s: %d\n", line, what, status);
  _exit(3);
}
#define NEED(call) need(call, #call, __LINE__)
#define MADE(call) (made = call, need(status, #call, __LINE__), made)

static uint64_t next(struct run *run) {
  uint64_t z = run->random += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}
static int below(struct run *run, int count) { return (int)(next(run) % (uint64_t)count); }
static int chance(struct run *run, int percent) { return below(run, 100) < percent; }

static void digest(struct run *run, const unsigned char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++)
    run->digest = (run->digest ^ bytes[i]) * 0x100000001b3;
}

/* Memory that stays until the end of the program. */
static unsigned char *keep(struct run *run, size_t length, int is_read) {
  unsigned char *made = malloc(length);
  for (size_t i = 0; i < length; i += 8) {
    uint64_t word = is_read ? 0 : next(run);
    memcpy(made + i, &word, length - i < 8 ? length - i : 8);
  }
  run->kept_bytes[run->kept_count] = is_read ? length : 0;
  run->kept[run->kept_count++] = made;
  return made;
}

/* ---- What there is */

static struct memory *any_memory(struct run *run, int wants_image) {
  struct memory *found[MOST_MEMS];
  int count = 0;
  for (int i = 0; i < MOST_MEMS; i++)
    if (run->mems[i] != NULL && run->mems[i]->is_image == wants_image &&
        run->mems[i]->root->pinned == NULL)
      found[count++] = run->mems[i];
  return count == 0 ? NULL : found[below(run, count)];
}

static void create_memory(struct run *run) {
  int at = below(run, MOST_MEMS);
  if (run->mems[at] != NULL || run->root_count == MOST_ROOTS || run->kept_count > MOST_KEPT - 8)
    return;
  struct memory *parent = chance(run, 30) ? any_memory(run, 0) : NULL,
                *new = calloc(1, sizeof *new);
  cl_int status;
  cl_mem made;
  run->freed[run->freed_count++] = new;
  if (parent != NULL && !parent->is_part) {
    cl_buffer_region region = {.origin = (size_t)below(run, BYTES / PART) * PART, .size = PART};
    *new = (struct memory){.root = parent->root, .size = PART, .is_part = 1};
    new->mem =
        MADE(clCreateSubBuffer(parent->mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status));
  } else {
    *new = (struct memory){.root = &run->roots[run->root_count++]};
    new->is_image = chance(run, 25);
    new->size = new->is_image ? IMAGE_BYTES : chance(run, 4) ? LARGE : BYTES;
    cl_mem_flags flags =
        !new->is_image && chance(run, 30) ? CL_MEM_USE_HOST_PTR : CL_MEM_COPY_HOST_PTR;
    unsigned char *data = keep(run, new->size, 0);
    const cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
    const cl_image_desc form = {
        .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = SIDE, .image_height = SIDE};
    new->mem = new->is_image ? MADE(clCreateImage(context, flags, &format, &form, data, &status))
                             : MADE(clCreateBuffer(context, flags, new->size, data, &status));
  }
  run->mems[at] = new;
}

static struct queue *any_queue(struct run *run) {
  struct queue *queue = &run->queues[below(run, MOST_QUEUES)];
  if (queue->queue == NULL) {
    cl_int status;
    cl_command_queue made;
    queue->is_loose = chance(run, 40);
    cl_command_queue_properties how =
        (queue->is_loose ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0) |
        (chance(run, 20) ? CL_QUEUE_PROFILING_ENABLE : 0);
    queue->queue = MADE(clCreateCommandQueue(context, device, how, &status));
  }
  return queue;
}

static void flush_all(struct run *run) {
  for (int i = 0; i < MOST_QUEUES; i++)
    if (run->queues[i].queue != NULL)
      NEED(clFlush(run->queues[i].queue));
}

static void open_gate(struct run *run) {
  if (run->gate == NULL)
    return;
  NEED(clSetUserEventStatus(run->gate, CL_COMPLETE));
  NEED(clReleaseEvent(run->gate));
  run->gate = NULL;
}

/* Nothing is ever waited for that waits for the gate. */
static void before_blocking(struct run *run) {
  open_gate(run);
  flush_all(run);
}

/* ---- Commands: each waits for the last one of all memory that it touches */

struct command {
  struct run *run;
  struct queue *queue;
  struct root *roots[2];
  int is_blocking, is_mute;
  cl_event waits[4], event;
  cl_uint count;
};

static struct command begin(struct run *run, struct root *one, struct root *other,
                            int is_blocking) {
  struct command command = {
      .run = run, .queue = any_queue(run), .roots = {one, other}, .is_blocking = is_blocking};
  if (is_blocking)
    before_blocking(run);
  for (int i = 0; i < 2; i++) {
    struct root *root = command.roots[i];
    if (root == NULL || (i == 1 && other == one) || root->by == NULL)
      continue;
    int is_other = root->by != command.queue->queue || command.queue->is_loose;
    if (is_other && root->is_mute) {
      before_blocking(run);
      NEED(clFinish(root->by));
    } else if (root->last != NULL && (is_other || chance(run, 20))) {
      command.waits[command.count++] = root->last;
    }
  }
  if (command.count > 0)
    flush_all(run);
  if (run->gate != NULL && !is_blocking && chance(run, 40))
    command.waits[command.count++] = run->gate;
  command.is_mute = !command.queue->is_loose && chance(run, 30);
  return command;
}
#define WAITS(command)                                                                             \
  command.count, command.count > 0 ? command.waits : NULL, command.is_mute ? NULL : &command.event

static void end(struct command *command) {
  for (int i = 0; i < 2; i++) {
    struct root *root = command->roots[i];
    if (root == NULL || (i == 1 && root == command->roots[0]))
      continue;
    if (root->last != NULL)
      NEED(clReleaseEvent(root->last));
    if (command->event != NULL)
      NEED(clRetainEvent(command->event));
    root->last = command->event;
    root->by = command->queue->queue;
    root->is_mute = command->event == NULL;
  }
  if (command->event != NULL)
    NEED(clReleaseEvent(command->event));
}

static const size_t ORIGIN[3], ALL[3] = {SIDE, SIDE, 1};

static void transfer(struct run *run) {
  struct memory *memory = any_memory(run, chance(run, 25));
  if (memory == NULL || run->kept_count > MOST_KEPT - 8)
    return;
  int is_read = chance(run, 50), is_blocking = chance(run, 30);
  unsigned char *data = keep(run, memory->size, is_read);
  size_t at = memory->is_image ? 0 : (size_t)below(run, 16) * 16;
  struct command command = begin(run, memory->root, NULL, is_blocking);
  cl_command_queue queue = command.queue->queue;
  cl_bool now = is_blocking ? CL_TRUE : CL_FALSE;
  if (memory->is_image && is_read)
    NEED(clEnqueueReadImage(queue, memory->mem, now, ORIGIN, ALL, 0, 0, data, WAITS(command)));
  else if (memory->is_image)
    NEED(clEnqueueWriteImage(queue, memory->mem, now, ORIGIN, ALL, 0, 0, data, WAITS(command)));
  else if (is_read)
    NEED(clEnqueueReadBuffer(queue, memory->mem, now, at, memory->size - at, data, WAITS(command)));
  else
    NEED(
        clEnqueueWriteBuffer(queue, memory->mem, now, at, memory->size - at, data, WAITS(command)));
  end(&command);
}

static void copy(struct run *run) {
  struct memory *from = any_memory(run, chance(run, 25)), *into = any_memory(run, chance(run, 25));
  if (from == NULL || into == NULL || from->root == into->root)
    return;
  if (from->is_image != into->is_image && (from->is_part || into->is_part))
    return; /* PoCL 3.1 crashes */
  struct command command = begin(run, from->root, into->root, 0);
  cl_command_queue queue = command.queue->queue;
  if (from->is_image && into->is_image)
    NEED(clEnqueueCopyImage(queue, from->mem, into->mem, ORIGIN, ORIGIN, ALL, WAITS(command)));
  else if (from->is_image)
    NEED(clEnqueueCopyImageToBuffer(queue, from->mem, into->mem, ORIGIN, ALL, 0, WAITS(command)));
  else if (into->is_image)
    NEED(clEnqueueCopyBufferToImage(queue, from->mem, into->mem, 0, ORIGIN, ALL, WAITS(command)));
  else
    NEED(clEnqueueCopyBuffer(queue, from->mem, into->mem, 0, 256, 512, WAITS(command)));
  end(&command);
}

static void fill(struct run *run) {
  struct memory *memory = any_memory(run, 0);
  if (memory == NULL)
    return;
  cl_int what = (cl_int)next(run);
  struct command command = begin(run, memory->root, NULL, 0);
  NEED(clEnqueueFillBuffer(command.queue->queue, memory->mem, &what, sizeof what, 64, 512,
                           WAITS(command)));
  end(&command);
}

static void map(struct run *run) {
  struct memory *memory = any_memory(run, 0);
  if (memory == NULL)
    return;
  cl_int status;
  struct command command = begin(run, memory->root, NULL, 1);
  memory->root->pinned =
      clEnqueueMapBuffer(command.queue->queue, memory->mem, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE,
                         128, 512, WAITS(command), &status);
  NEED(status);
  memory->root->pinned_by = memory;
  end(&command);
}

static void unmap(struct run *run, struct root *root) {
  if (root->pinned == NULL)
    return;
  digest(run, root->pinned, 512);
  for (int i = 0; i < 512; i++)
    root->pinned[i] = (unsigned char)(root->pinned[i] * 5 + i);
  struct command command = begin(run, root, NULL, 0);
  NEED(clEnqueueUnmapMemObject(command.queue->queue, root->pinned_by->mem, root->pinned,
                               WAITS(command)));
  root->pinned = NULL;
  end(&command);
}

/* ---- Kernels */

static void set_argument(struct run *run, struct kernel *kernel, int index) {
  cl_kernel it = kernel->kernel;
  cl_int number = (cl_int)(next(run) % 1000);
  struct memory *memory = NULL;
  switch (KERNELS[kernel->kind].arguments[index]) {
  case 'n':
    NEED(clSetKernelArg(it, (cl_uint)index, sizeof number, &number));
    break;
  case 'l':
    NEED(clSetKernelArg(it, (cl_uint)index, ITEMS * sizeof number, NULL));
    break;
  case 's':
    NEED(clSetKernelArg(it, (cl_uint)index, sizeof(cl_sampler), &kernel->sampler));
    break;
  default:
    memory = any_memory(run, KERNELS[kernel->kind].arguments[index] == 'i');
    if (memory == NULL)
      return;
    NEED(clSetKernelArg(it, (cl_uint)index, sizeof(cl_mem), &memory->mem));
  }
  kernel->holds[index] = memory;
  kernel->is_set[index] = 1;
}

static struct kernel *any_kernel(struct run *run) {
  struct kernel **at = &run->kernels[below(run, MOST_KERNELS)];
  if (*at == NULL) {
    cl_int status;
    struct kernel *new = calloc(1, sizeof *new);
    new->kind = below(run, KINDS);
    new->kernel = clCreateKernel(program, KERNELS[new->kind].name, &status);
    NEED(status);
    if (strchr(KERNELS[new->kind].arguments, 's') != NULL)
      new->sampler =
          clCreateSampler(context, CL_FALSE, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST, &status);
    NEED(status);
    *at = new;
  }
  return *at;
}

static void launch(struct run *run) {
  struct kernel *kernel = any_kernel(run);
  const char *arguments = KERNELS[kernel->kind].arguments;
  struct root *roots[2] = {NULL, NULL};
  int count = 0;
  for (int i = 0; arguments[i] != '\0'; i++) {
    if (!kernel->is_set[i] || chance(run, 20))
      set_argument(run, kernel, i);
    if (!kernel->is_set[i])
      return;
    if (kernel->holds[i] != NULL) {
      if (kernel->holds[i]->root->pinned != NULL)
        return;
      roots[count++] = kernel->holds[i]->root;
    }
  }
  if (count == 2 && roots[0] == roots[1]) /* parts may overlap */
    return;
  struct command command = begin(run, roots[0], roots[1], 0);
  size_t all = ITEMS, some = chance(run, 50) ? 16 : 8;
  NEED(clEnqueueNDRangeKernel(command.queue->queue, kernel->kernel, 1, NULL, &all, &some,
                              WAITS(command)));
  end(&command);
}

/* ---- Retain and release */

static void release_memory(struct run *run, int at) {
  struct memory *memory = run->mems[at];
  if (memory == NULL || (memory->root->pinned != NULL && memory->root->pinned_by == memory))
    return;
  if (chance(run, 30)) {
    NEED(clRetainMemObject(memory->mem));
    memory->extra++;
    return;
  }
  if (memory->extra > 0) {
    memory->extra--;
  } else {
    run->mems[at] = NULL;
    int is_tidy = chance(run, 75); /* else a kernel holds it until its next argument */
    for (int i = 0; i < MOST_KERNELS; i++)
      for (int index = 0; run->kernels[i] != NULL && index < MOST_ARGUMENTS; index++)
        if (run->kernels[i]->holds[index] == memory) {
          run->kernels[i]->holds[index] = NULL;
          run->kernels[i]->is_set[index] = 0;
          if (is_tidy)
            set_argument(run, run->kernels[i], index);
        }
  }
  NEED(clReleaseMemObject(memory->mem));
}

static void release_kernel(struct run *run, int at) {
  struct kernel *kernel = run->kernels[at];
  if (kernel == NULL)
    return;
  run->kernels[at] = NULL;
  if (kernel->sampler != NULL)
    NEED(clReleaseSampler(kernel->sampler));
  NEED(clReleaseKernel(kernel->kernel));
  free(kernel);
}

static void release_queue(struct run *run, int at) {
  cl_command_queue queue = run->queues[at].queue;
  if (queue == NULL)
    return;
  for (int i = 0; i < run->root_count; i++)
    if (run->roots[i].by == queue) {
      if (run->roots[i].is_mute) {
        before_blocking(run);
        NEED(clFinish(queue));
      }
      run->roots[i].by = run->roots[i].is_mute ? NULL : (cl_command_queue)run; /* some other */
      run->roots[i].is_mute = 0;
    }
  NEED(clReleaseCommandQueue(queue));
  run->queues[at].queue = NULL;
}

/* ---- A program */

static void await_move(struct run *run) {
  char byte = 0;
  while (run->asked > 0 && read(answer, &byte, 1) == 1)
    run->asked--;
  if (run->asked > 0)
    _exit(4);
}

static void ask_for_move(struct run *run, int is_patient) {
  if (ask < 0)
    return;
  if (run->asked > 0 && run->gate != NULL)
    return;        /* that move waits for the gate, as may be */
  await_move(run); /* the one before */
  if (write(ask, "m", 1) != 1)
    _exit(4);
  run->asked++;
  if (is_patient && run->gate == NULL)
    await_move(run);
}

static void step(struct run *run) {
  int what = below(run, 100);
  if (what < 12)
    create_memory(run);
  else if (what < 40)
    launch(run);
  else if (what < 58)
    transfer(run);
  else if (what < 66)
    copy(run);
  else if (what < 71)
    fill(run);
  else if (what < 74)
    map(run);
  else if (what < 80)
    unmap(run, &run->roots[below(run, run->root_count)]);
  else if (what < 86)
    set_argument(run, any_kernel(run), 0);
  else if (what < 91)
    release_memory(run, below(run, MOST_MEMS));
  else if (what < 93)
    release_kernel(run, below(run, MOST_KERNELS));
  else if (what < 95)
    release_queue(run, below(run, MOST_QUEUES));
  else if (run->gate != NULL)
    open_gate(run);
  else if (what < 98) {
    cl_int status;
    run->gate = clCreateUserEvent(context, &status);
    NEED(status);
  } else {
    before_blocking(run);
    NEED(clFinish(any_queue(run)->queue));
  }
}

static void *go(void *argument) {
  struct run *run = argument;
  struct run other = {.random = run->random ^ 0x5555};
  /* Where it moves is no part of what it does. */
  int at = below(&other, run->steps), is_patient = chance(&other, 50);
  int always = below(&other, 20) == 0;
  while (run->root_count < 2)
    create_memory(run);
  for (int i = 0; i < run->steps; i++) {
    if (run->moves && (always || i == at))
      ask_for_move(run, is_patient);
    step(run);
  }
  for (int i = 0; i < run->root_count; i++)
    unmap(run, &run->roots[i]);
  before_blocking(run);
  for (int i = 0; i < MOST_QUEUES; i++)
    if (run->queues[i].queue != NULL)
      NEED(clFinish(run->queues[i].queue));
  for (int i = 0; i < run->root_count; i++)
    if (run->roots[i].last != NULL)
      NEED(clWaitForEvents(1, &run->roots[i].last));
  for (int i = 0; i < MOST_MEMS; i++) {
    struct memory *memory = run->mems[i];
    if (memory == NULL)
      continue;
    unsigned char *got = malloc(memory->size);
    cl_command_queue queue = any_queue(run)->queue;
    if (memory->is_image)
      NEED(clEnqueueReadImage(queue, memory->mem, CL_TRUE, ORIGIN, ALL, 0, 0, got, 0, NULL, NULL));
    else
      NEED(clEnqueueReadBuffer(queue, memory->mem, CL_TRUE, 0, memory->size, got, 0, NULL, NULL));
    digest(run, got, memory->size);
    free(got);
    for (int left = memory->extra; left >= 0; left--)
      NEED(clReleaseMemObject(memory->mem));
  }
  for (int i = 0; i < run->root_count; i++)
    if (run->roots[i].last != NULL)
      NEED(clReleaseEvent(run->roots[i].last));
  for (int i = 0; i < MOST_KERNELS; i++)
    release_kernel(run, i);
  for (int i = 0; i < MOST_QUEUES; i++)
    if (run->queues[i].queue != NULL)
      NEED(clReleaseCommandQueue(run->queues[i].queue));
  if (run->moves)
    await_move(run);
  for (int i = 0; i < run->kept_count; i++) {
    digest(run, run->kept[i], run->kept_bytes[i]);
    free(run->kept[i]);
  }
  for (int i = 0; i < run->freed_count; i++)
    free(run->freed[i]);
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 3 && argc != 5)
    return 2;
  if (argc == 5) {
    ask = atoi(argv[3]);
    answer = atoi(argv[4]);
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  const char *source = SOURCE;
  cl_platform_id platform;
  cl_int status;
  NEED(clGetPlatformIDs(1, &platform, NULL));
  NEED(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
  NEED(status);
  program = clCreateProgramWithSource(context, 1, &source, NULL, &status);
  NEED(status);
  NEED(clBuildProgram(program, 1, &device, "", NULL, NULL));
  uint64_t first = strtoull(argv[1], NULL, 10), count = strtoull(argv[2], NULL, 10);
  for (uint64_t number = first; number < first + count; number++) {
    struct run *runs = calloc(2, sizeof *runs);
    pthread_t thread;
    int is_two = number % 4 == 3;
    for (uint64_t i = 0; i < 2; i++) {
      runs[i].digest = 0xcbf29ce484222325;
      runs[i].random = number * 2654435761U + i * 97;
      runs[i].steps = 10 + below(&runs[i], STEPS);
    }
    runs[0].moves = 1;
    if (is_two)
      pthread_create(&thread, NULL, go, &runs[1]);
    go(&runs[0]);
    if (is_two)
      pthread_join(thread, NULL);
    printf("%llu %016llx\n", (unsigned long long)number,
           (unsigned long long)(runs[0].digest * 31 + runs[1].digest));
    free(runs);
  }
  return 0;
}
