/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * device_kinds [LIBRARY cuda|hip|ze]: sends 100 messages each from several kinds of memory of a
 * stand-in GPU runtime, loaded here, and prints how often the runtime was asked. Without a library
 * the same messages are sent from plain memory.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MESSAGES 100
#define SIZE (1 << 20)

/* Linked like any application's call; the interposer's, or nobody's. */
__attribute__((weak)) int cuMemFree_v2(uintptr_t pointer);
__attribute__((weak)) int hipFree(uintptr_t pointer);
__attribute__((weak)) int zeMemFree(void *context, void *pointer);
__attribute__((weak)) int zeContextCreate(void *driver, const void *description, void **context);

static int (*declare)(void *, size_t, int, char);
static int (*questions)(void);
static void *context;
static const char *kind = "";

static void load(char **argv) {
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  kind = argv[2];
  declare = (int (*)(void *, size_t, int, char))dlsym(library, "fake_gpu_declare");
  questions = (int (*)(void))dlsym(library, "fake_gpu_questions");
  if (strcmp(kind, "ze") == 0) {
    int (*drivers)(uint32_t *, void **) =
        (int (*)(uint32_t *, void **))dlsym(library, "zeDriverGet");
    uint32_t one = 1;
    void *driver;
    drivers(&one, &driver);
    if (zeContextCreate == NULL || zeContextCreate(driver, NULL, &context) != 0)
      exit(2);
  }
}

static void allocate(void *start, int device, char what) {
  if (declare != NULL && declare(start, SIZE, device, what) != 0)
    exit(3);
}

static void release(void *start) {
  int code = 0;
  if (strcmp(kind, "cuda") == 0)
    code = cuMemFree_v2 == NULL || cuMemFree_v2((uintptr_t)start);
  else if (strcmp(kind, "hip") == 0)
    code = hipFree == NULL || hipFree((uintptr_t)start);
  else if (strcmp(kind, "ze") == 0)
    code = zeMemFree == NULL || zeMemFree(context, start);
  if (code != 0)
    exit(4);
}

/* `length` bytes, so that every kind of memory can be told in the books. */
static void send(const char *buffer, int length) {
  char in[64];
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < MESSAGES; ++i)
    MPI_Sendrecv(buffer + i * 64, length, MPI_BYTE, (rank + 1) % size, 0, in, 64, MPI_BYTE,
                 (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* A nonblocking exchange with itself, received into `in`. */
static void receive(char *in, const char *out) {
  MPI_Request requests[2];
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Irecv(in, 1, MPI_BYTE, rank, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(out, 0, MPI_BYTE, rank, 1, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

/* The interposer looks for runtimes every few milliseconds of calls. */
static void make_it_look(void) {
  struct timespec pause = {.tv_nsec = 30000000};
  int flag;
  for (int i = 0; i < 300; ++i)
    MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  nanosleep(&pause, NULL);
  MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  char *memory = aligned_alloc(4096, 5 * SIZE);
  char *device = memory, *other = memory + SIZE, *managed = memory + 2 * SIZE;
  char *registered = memory + 3 * SIZE, *plain = memory + 4 * SIZE;
  memset(memory, 0, 5 * SIZE);
  if (argc > 2)
    load(argv);
  allocate(device, 1, 'd');
  allocate(other, 2, 'd');
  allocate(managed, 1, 'm');
  allocate(registered, 1, 'h');
  make_it_look();
  send(device, 1);
  send(other, 2);
  send(managed, 3);
  send(registered, 4);
  send(plain, 5);
  receive(device + 500, plain);
  receive(plain, plain);
  release(device);
  send(device, 6); /* plain memory now, at once */
  int asked = questions != NULL ? questions() : 0;
  allocate(device, 3, 'd');
  release(managed);
  send(device, 7);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    printf("%d\n", asked);
  MPI_Finalize();
  free(memory);
  return 0;
}
