/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What benchmarks/bench_virtual.py runs in turns: one figure of OpenCL or of a bare socket.

     virtual_client KIND ROUNDS              one of OpenCL, from the device that it is given
     virtual_client ping|push|pull ROUNDS PORT   the same from a socket of 127.0.0.1
     virtual_client serve                    the other end of these: prints its port
     virtual_client start                    only finds its devices
     virtual_client prepare                 its programs alone, as they are for `stay`
     virtual_client stay                     has a full buffer, says so, and looks whether it still
   has it when it may go on virtual_client relay PORT MICROSECONDS  passes on to PORT, so much later
   each way: prints its port

   Prints the median of its rounds: seconds for what waits, calls/s or bytes/s for the rest. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BULK = 256 << 20, BESIDE = 64 << 20, LAUNCHES = 20000, MOST_ROUNDS = 100000 };

static double times[MOST_ROUNDS];
static char *bulk;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(int count) {
  qsort(times, (size_t)count, sizeof *times, compare);
  return times[count / 2];
}

static void need(int met, const char *what) {
  if (met)
    return;
  fprintf(stderr, "virtual_client: %s\n", what);
  exit(1);
}

/* ---- bare sockets ---- */

enum { PING = 'n', PUSH = 's', PULL = 'l' }; /* the third letter of their names */

static void all(ssize_t (*move)(int, void *, size_t), int socket, void *data, size_t length) {
  for (char *at = data; length > 0;) {
    ssize_t moved = move(socket, at, length);
    need(moved > 0, "the other end is gone");
    at += moved;
    length -= (size_t)moved;
  }
}

static ssize_t out(int socket, void *data, size_t length) {
  return send(socket, data, length, MSG_NOSIGNAL);
}

static ssize_t in(int socket, void *data, size_t length) { return recv(socket, data, length, 0); }

static int tuned(int socket) {
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
  return socket;
}

static struct sockaddr_in local(int port) {
  struct sockaddr_in made = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
  made.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return made;
}

static int connected(int port) {
  struct sockaddr_in to = local(port);
  int made = socket(AF_INET, SOCK_STREAM, 0);
  need(connect(made, (struct sockaddr *)&to, sizeof to) == 0, "cannot connect");
  return tuned(made);
}

static int listening(void) {
  struct sockaddr_in at = local(0);
  socklen_t length = sizeof at;
  int made = socket(AF_INET, SOCK_STREAM, 0);
  need(bind(made, (struct sockaddr *)&at, sizeof at) == 0 && listen(made, 64) == 0,
       "cannot listen");
  getsockname(made, (struct sockaddr *)&at, &length);
  printf("%d\n", ntohs(at.sin_port));
  fflush(stdout);
  return made;
}

static void *answer(void *at) {
  int peer = *(int *)at;
  char kind;
  free(at);
  while (recv(peer, &kind, 1, MSG_WAITALL) == 1) {
    if (kind == PUSH)
      all(in, peer, bulk, BULK);
    else if (kind == PULL)
      all(out, peer, bulk, BULK);
    all(out, peer, &kind, 1);
  }
  close(peer);
  return NULL;
}

static void serve(void) {
  for (int socket = listening();;) {
    int *peer = malloc(sizeof *peer);
    pthread_t thread;
    need(peer != NULL && (*peer = accept(socket, NULL, NULL)) >= 0, "cannot accept");
    tuned(*peer);
    pthread_create(&thread, NULL, answer, peer);
    pthread_detach(thread);
  }
}

static double bare(char kind, int rounds, int port) {
  int peer = connected(port);
  for (int i = -1; i < rounds; i++) { /* the first fills caches */
    char sent = kind;
    double begin = now();
    all(out, peer, &sent, 1);
    if (kind == PUSH)
      all(out, peer, bulk, BULK);
    else if (kind == PULL)
      all(in, peer, bulk, BULK);
    all(in, peer, &sent, 1);
    times[i < 0 ? 0 : i] = now() - begin;
  }
  return kind == PING ? median(rounds) : BULK / median(rounds);
}

/* ---- a relay that delays ---- */

enum { PIECES = 4096, PIECE = 32 << 10 };
struct way {
  int from, to;
  long delay_ns;
  atomic_uint filled, sent;
  struct {
    struct timespec due;
    ssize_t length;
    char *bytes;
  } pieces[PIECES];
};

static void *take(void *context) {
  struct way *way = context;
  for (unsigned at = 0;; at++) {
    while (at - atomic_load(&way->sent) == PIECES)
      usleep(50);
    unsigned slot = at % PIECES;
    if (way->pieces[slot].bytes == NULL)
      way->pieces[slot].bytes = malloc(PIECE);
    way->pieces[slot].length = recv(way->from, way->pieces[slot].bytes, PIECE, 0);
    struct timespec *due = &way->pieces[slot].due;
    clock_gettime(CLOCK_MONOTONIC, due);
    due->tv_nsec += way->delay_ns;
    due->tv_sec += due->tv_nsec / 1000000000;
    due->tv_nsec %= 1000000000;
    atomic_fetch_add(&way->filled, 1);
    if (way->pieces[slot].length <= 0)
      return NULL;
  }
}

static void *give(void *context) {
  struct way *way = context;
  prctl(PR_SET_TIMERSLACK, 1);
  for (unsigned at = 0;; at++) {
    while (atomic_load(&way->filled) == at)
      clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = 5000}, NULL);
    unsigned slot = at % PIECES;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &way->pieces[slot].due, NULL);
    if (way->pieces[slot].length <= 0)
      break;
    for (ssize_t done = 0; done < way->pieces[slot].length;) {
      ssize_t more = send(way->to, way->pieces[slot].bytes + done,
                          (size_t)(way->pieces[slot].length - done), MSG_NOSIGNAL);
      if (more <= 0)
        goto gone;
      done += more;
    }
    atomic_fetch_add(&way->sent, 1);
  }
gone:
  shutdown(way->to, SHUT_WR);
  return NULL;
}

static void relay(int port, long delay_us) {
  for (int socket = listening();;) {
    int peer = tuned(accept(socket, NULL, NULL)), server = connected(port);
    for (int back = 0; back < 2; back++) {
      struct way *way = calloc(1, sizeof *way);
      pthread_t thread;
      need(way != NULL, "no memory");
      way->from = back ? server : peer;
      way->to = back ? peer : server;
      way->delay_ns = delay_us * 1000;
      pthread_create(&thread, NULL, take, way);
      pthread_create(&thread, NULL, give, way);
    }
  }
}

/* ---- OpenCL ---- */

static cl_platform_id platform;
static cl_device_id device;
static cl_context context;
static cl_command_queue queue, other;
static cl_kernel kernel;
static cl_mem buffer, small;

#define NEED(call) need((call) == CL_SUCCESS, #call)

static void find(void) {
  NEED(clGetPlatformIDs(1, &platform, NULL));
  NEED(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
}

static void begin(void) {
  const char *source = "kernel void f(global int *to, int what) { to[0] = what; }";
  cl_int status;
  find();
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
  queue = clCreateCommandQueue(context, device, 0, &status);
  other = clCreateCommandQueue(context, device, 0, &status);
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &status);
  NEED(clBuildProgram(program, 1, &device, "", NULL, NULL));
  kernel = clCreateKernel(program, "f", &status);
  buffer = clCreateBuffer(context, 0, BULK, NULL, &status);
  small = clCreateBuffer(context, 0, 4, NULL, &status);
  NEED(status);
  NEED(clSetKernelArg(kernel, 0, sizeof(cl_mem), (const void *)&small));
  NEED(clSetKernelArg(kernel, 1, sizeof(int), &(int){1}));
}

static void launch(cl_event *event) {
  NEED(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &(size_t){1}, NULL, 0, NULL, event));
}

static void finish(void) {
  launch(NULL);
  NEED(clFinish(queue));
}

static void batch(void) {
  for (int i = 0; i < 10; i++) {
    NEED(clSetKernelArg(kernel, 1, sizeof i, &i));
    launch(NULL);
  }
  NEED(clFinish(queue));
}

static void launches(void) {
  for (int i = 0; i < LAUNCHES; i++)
    launch(NULL);
  NEED(clFinish(queue));
}

static void events(void) {
  for (int i = 0; i < LAUNCHES; i++) {
    cl_event event;
    launch(&event);
    NEED(clReleaseEvent(event));
  }
  NEED(clFinish(queue));
}

static void write_bulk(void) {
  NEED(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, BULK, bulk, 0, NULL, NULL));
  NEED(clFinish(queue)); /* a blocking write is done once its pointer is free */
}

static void read_bulk(void) {
  NEED(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, BULK, bulk, 0, NULL, NULL));
}

static void read_small(void) {
  int got;
  NEED(clEnqueueReadBuffer(queue, small, CL_TRUE, 0, 4, &got, 0, NULL, NULL));
}

/* One that no cache has. */
static void build(void) {
  const char *source = "kernel void g(global int *to) { to[0] = N; }";
  char options[64];
  cl_int status;
  snprintf(options, sizeof options, "-DN=%ld", (long)(now() * 1e9) % 1000000000);
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &status);
  NEED(clBuildProgram(program, 1, &device, options, NULL, NULL));
}

/* What a process does before it can compute: its driver, a context, a program from the cache, one
   from nowhere. */
static int prepare(void) {
  double start = now();
  begin();
  build();
  printf("%.9g\n", now() - start);
  return 0;
}

static int stay(void) {
  begin();
  build();
  for (size_t i = 0; i < BULK; i++)
    bulk[i] = (char)(i * 2654435761U >> 24);
  write_bulk();
  puts("ready");
  fflush(stdout);
  (void)getchar();
  memset(bulk, 0, BULK);
  read_bulk();
  for (size_t i = 0; i < BULK; i++)
    need(bulk[i] == (char)(i * 2654435761U >> 24), "its buffer is not what it was");
  return 0;
}

static atomic_int over;

static void *write_on(void *nothing) {
  while (!atomic_load(&over))
    NEED(clEnqueueWriteBuffer(other, buffer, CL_TRUE, 0, BESIDE, bulk, 0, NULL, NULL));
  return nothing;
}

static const struct {
  const char *name;
  void (*run)(void);
  double count; /* of what is counted per second; 0: seconds */
} KINDS[] = {
    {"finish", finish, 0},        {"batch", batch, 0},         {"launches", launches, LAUNCHES},
    {"events", events, LAUNCHES}, {"write", write_bulk, BULK}, {"read", read_bulk, BULK},
    {"small", read_small, 0},     {"beside", read_small, 0},
};

int main(int argc, char **argv) {
  const char *kind = argc > 1 ? argv[1] : "";
  int rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
  int port = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 0;
  if (strcmp(kind, "relay") == 0)
    relay(rounds, port);
  if (strcmp(kind, "start") == 0) {
    find();
    return 0;
  }
  bulk = malloc(BULK);
  need(bulk != NULL, "no memory");
  memset(bulk, 1, BULK);
  if (strcmp(kind, "serve") == 0)
    serve();
  if (strcmp(kind, "stay") == 0)
    return stay();
  if (strcmp(kind, "prepare") == 0)
    return prepare();
  need(rounds > 0 && rounds <= MOST_ROUNDS, "KIND ROUNDS [PORT]");
  if (port > 0) {
    printf("%.9g\n", bare(kind[2], rounds, port));
    return 0;
  }
  for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
    if (strcmp(kind, KINDS[i].name) != 0)
      continue;
    pthread_t thread;
    begin();
    KINDS[i].run();
    int is_beside = strcmp(kind, "beside") == 0;
    if (is_beside)
      pthread_create(&thread, NULL, write_on, NULL);
    for (int round = 0; round < rounds; round++) {
      double start = now();
      KINDS[i].run();
      times[round] = now() - start;
    }
    atomic_store(&over, 1);
    if (is_beside)
      pthread_join(thread, NULL);
    printf("%.9g\n", KINDS[i].count == 0 ? median(rounds) : KINDS[i].count / median(rounds));
    return 0;
  }
  return 2;
}
