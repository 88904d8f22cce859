/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The runtime library on the machine file that is named: three devices, of which 0 and 1 reach each
   other; two processes share memory. Names the line that fails. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cudart.h"

const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
cudaError_t cudaGraphCreate(void **graph, unsigned flags);
void **__cudaRegisterFatBinary(const void *image);
void __cudaRegisterFatBinaryEnd(void **binary);
void __cudaUnregisterFatBinary(void **binary);
void __cudaRegisterFunction(void **binary, const void *kernel, char *device_name, const char *name,
                            int threads, void *thread, void *block, void *block_size,
                            void *grid_size, int *warp_size);
unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared,
                                     CUstream stream);

enum { SIZE = 300000, FLAGS_HOST_DEFAULT = 0 };

#define EXPECT(code, call)                                                                         \
  do {                                                                                             \
    const cudaError_t result_ = (call);                                                            \
    if (result_ != (code)) {                                                                       \
      fprintf(stderr, "line %d: %s answers %s\n", __LINE__, #call, cudaGetErrorName(result_));     \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)
#define DO(call) EXPECT(CUDA_SUCCESS, call)
#define HOLDS(what)                                                                                \
  do {                                                                                             \
    if (!(what)) {                                                                                 \
      fprintf(stderr, "line %d: not so: %s\n", __LINE__, #what);                                   \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

static unsigned char pattern[SIZE];
static unsigned char back[SIZE];

static void *device_memory(size_t bytes) {
  void *memory = NULL;
  DO(cudaMalloc(&memory, bytes));
  return memory;
}

static void expect_bytes(const void *device, const unsigned char *bytes, size_t count) {
  memset(back, 0xee, count);
  DO(cudaMemcpy(back, device, count, cudaMemcpyDeviceToHost));
  HOLDS(memcmp(back, bytes, count) == 0);
}

static void devices(void) {
  int number = -1;
  int other = -1;
  char text[32];
  struct cudaDeviceProp properties;
  DO(cudaRuntimeGetVersion(&number));
  HOLDS(number == CUDART_MAJOR * 1000);
  DO(cudaDriverGetVersion(&other));
  HOLDS(other >= number);
  DO(cudaGetDeviceCount(&number));
  HOLDS(number == 3);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cudaGetDeviceCount(NULL));
  DO(cudaGetDevice(&number));
  HOLDS(number == 0);
  EXPECT(CUDA_ERROR_INVALID_DEVICE, cudaSetDevice(3));
  EXPECT(CUDA_ERROR_INVALID_DEVICE, cudaSetDevice(-1));
  DO(cudaSetDevice(2));
  DO(cudaGetDevice(&number));
  HOLDS(number == 2);
  memset(&properties, 0xee, sizeof properties);
#if CUDART_MAJOR < 13
  DO(cudaGetDeviceProperties(&properties, 1)); /* as version 11 */
  HOLDS(properties.hostRegisterSupported == (int)0xeeeeeeee);
  DO(cudaGetDeviceProperties_v2(&properties, 1));
#else
  DO(cudaGetDeviceProperties(&properties, 1));
#endif
  HOLDS(strcmp(properties.name, "Test (emulated)") == 0 && properties.major == 7);
  HOLDS(properties.totalGlobalMem == 1 << 30 && properties.uuid.bytes[15] == 2);
  HOLDS(properties.pciBusID == 2 && properties.pciDomainID == 0 && properties.pciDeviceID == 0);
  HOLDS(properties.warpSize == 32 && properties.maxThreadsDim[2] == 64);
  HOLDS(properties.unifiedAddressing == 1 && properties.memoryPoolsSupported == 1);
  HOLDS(properties.reserved[0] == 0 && properties.totalConstMem == 65536);
  EXPECT(CUDA_ERROR_INVALID_DEVICE, cudaGetDeviceProperties(&properties, 3));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cudaGetDeviceProperties(NULL, 0));
  DO(cudaDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 2));
  HOLDS(number == 3);
  DO(cudaDeviceGetPCIBusId(text, sizeof text, 1));
  DO(cudaDeviceGetByPCIBusId(&number, text));
  HOLDS(number == 1);
  DO(cudaInitDevice(1, 0, 0));
  DO(cudaGetDevice(&number));
  HOLDS(number == 2);
}

static void peers(void) {
  int can = -1;
  DO(cudaDeviceCanAccessPeer(&can, 0, 1));
  HOLDS(can == 1);
  DO(cudaDeviceCanAccessPeer(&can, 0, 2));
  HOLDS(can == 0);
  DO(cudaDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1, 0));
  HOLDS(can == 1);
  DO(cudaSetDevice(0));
  EXPECT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cudaDeviceDisablePeerAccess(1));
  DO(cudaDeviceEnablePeerAccess(1, 0));
  EXPECT(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cudaDeviceEnablePeerAccess(1, 0));
  EXPECT(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cudaDeviceEnablePeerAccess(2, 0));
  EXPECT(CUDA_ERROR_INVALID_DEVICE, cudaDeviceEnablePeerAccess(9, 0));
  unsigned char *near = device_memory(SIZE);
  DO(cudaSetDevice(1));
  unsigned char *far = device_memory(SIZE);
  DO(cudaMemcpy(near, pattern, SIZE, cudaMemcpyHostToDevice));
  DO(cudaMemcpyPeer(far, 1, near, 0, SIZE));
  expect_bytes(far, pattern, SIZE);
  DO(cudaMemset(far, 3, SIZE));
  DO(cudaMemcpyPeerAsync(far + 10, 1, near, 0, SIZE - 10, NULL));
  DO(cudaDeviceSynchronize());
  expect_bytes(far + 10, pattern, SIZE - 10);
  EXPECT(CUDA_ERROR_INVALID_DEVICE, cudaMemcpyPeer(far, 1, near, 7, SIZE));
  DO(cudaFree(near));
  DO(cudaFree(far));
  DO(cudaSetDevice(0));
  DO(cudaDeviceDisablePeerAccess(1));
}

static void expect_pointer(const void *pointer, int type, int device, bool on_host) {
  struct cudaPointerAttributes found;
  memset(&found, 0xee, sizeof found);
  DO(cudaPointerGetAttributes(&found, pointer));
  HOLDS(found.type == type && found.device == device);
  HOLDS(found.hostPointer == (on_host ? (void *)(uintptr_t)pointer : NULL));
  HOLDS(found.devicePointer == (type ? (void *)(uintptr_t)pointer : NULL));
#if CUDART_MAJOR >= 13
  HOLDS(found.reserved[7] == 0);
#endif
}

static void memory(void) {
  size_t available = 0;
  size_t total = 0;
  void *nothing = pattern;
  DO(cudaSetDevice(1));
  DO(cudaMemGetInfo(&available, &total));
  HOLDS(total == 1 << 30 && available <= total);
  DO(cudaMalloc(&nothing, 0));
  HOLDS(!nothing);
  DO(cudaFree(NULL));
  EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cudaMalloc(&nothing, (size_t)2 << 30));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cudaMalloc(NULL, 8));
  unsigned char *device = device_memory(SIZE);
  expect_pointer(device + 5, cudaMemoryTypeDevice, 1, false);
  void *pinned = NULL;
  void *managed = NULL;
  void *same = NULL;
  DO(cudaHostAlloc(&pinned, SIZE, FLAGS_HOST_DEFAULT));
  expect_pointer(pinned, cudaMemoryTypeHost, 1, true);
  DO(cudaHostGetDevicePointer(&same, pinned, 0));
  HOLDS(same == pinned);
  DO(cudaMallocManaged(&managed, SIZE, 1));
  expect_pointer(managed, cudaMemoryTypeManaged, 1, true);
  expect_pointer(pattern, cudaMemoryTypeUnregistered, -2, true);
  DO(cudaHostRegister(pattern, SIZE, 0));
  expect_pointer(pattern, cudaMemoryTypeHost, 1, true);
  EXPECT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cudaHostRegister(pattern, SIZE, 0));
  DO(cudaHostUnregister(pattern));
  EXPECT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cudaHostUnregister(pattern));
  DO(cudaFree(managed));
  DO(cudaFreeHost(pinned));
  DO(cudaFreeHost(NULL));
  DO(cudaFree(device));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cudaFree(device));
}

static void rows(void) {
  size_t pitch = 0;
  unsigned char *device = NULL;
  DO(cudaMallocPitch((void **)&device, &pitch, 100, 20));
  HOLDS(pitch >= 100);
  DO(cudaMemset2D(device, pitch, 9, pitch, 20));
  DO(cudaMemcpy2D(device, pitch, pattern, 120, 100, 20, cudaMemcpyHostToDevice));
  expect_bytes(device + 19 * pitch, pattern + (size_t)19 * 120, 100);
  expect_bytes(device + 100, (const unsigned char[]){9}, 1);
  unsigned char *copied = back;
  DO(cudaMemcpy2DAsync(copied, 100, device, pitch, 100, 20, cudaMemcpyDefault, NULL));
  DO(cudaStreamSynchronize(NULL));
  for (size_t row = 0; row < 20; ++row)
    HOLDS(memcmp(copied + row * 100, pattern + row * 120, 100) == 0);
  DO(cudaMemset2DAsync(device, pitch, 4, 50, 2, NULL));
  DO(cudaDeviceSynchronize());
  expect_bytes(device + pitch + 49, (const unsigned char[]){4, pattern[170]}, 2);
  EXPECT(cudaErrorInvalidPitchValue, cudaMemset2D(device, 10, 0, 11, 2));
  EXPECT(cudaErrorInvalidPitchValue, cudaMemcpy2D(device, 10, pattern, 11, 11, 2, 1));
  EXPECT(cudaErrorInvalidMemcpyDirection, cudaMemcpy(device, pattern, 8, 5));
  EXPECT(cudaErrorInvalidMemcpyDirection, cudaMemcpy2D(device, 9, pattern, 9, 9, 2, -1));
  DO(cudaFree(device));
}

static void count_up(void *data) { ++*(int *)data; }

static void streams(void) {
  CUstream stream = NULL;
  CUstream other = NULL;
  CUevent begin = NULL;
  CUevent end = NULL;
  unsigned flags = 9;
  int calls = 0;
  int mode = 1;
  float milliseconds = -1;
  void *device = NULL;
  DO(cudaStreamCreateWithFlags(&stream, CU_STREAM_NON_BLOCKING));
  DO(cudaStreamCreateWithPriority(&other, 0, 0));
  DO(cudaStreamGetFlags(stream, &flags));
  HOLDS(flags == CU_STREAM_NON_BLOCKING);
  DO(cudaEventCreate(&begin));
  DO(cudaEventCreateWithFlags(&end, 0));
  DO(cudaMallocAsync(&device, SIZE, stream));
  DO(cudaEventRecord(begin, stream));
  DO(cudaMemcpyAsync(device, pattern, SIZE, cudaMemcpyHostToDevice, stream));
  DO(cudaLaunchHostFunc(stream, count_up, &calls));
  DO(cudaEventRecordWithFlags(end, stream, 0));
  DO(cudaStreamWaitEvent(other, end, 0));
  DO(cudaMemcpyAsync(back, device, SIZE, cudaMemcpyDeviceToHost, other));
  DO(cudaStreamSynchronize(other));
  HOLDS(calls == 1 && memcmp(back, pattern, SIZE) == 0);
  DO(cudaStreamQuery(stream));
  DO(cudaEventQuery(end));
  DO(cudaEventElapsedTime(&milliseconds, begin, end));
  HOLDS(milliseconds > 0);
  DO(cudaStreamIsCapturing(stream, &calls));
  HOLDS(calls == 0);
  DO(cudaThreadExchangeStreamCaptureMode(&mode));
  HOLDS(mode == 0);
  DO(cudaFreeAsync(device, stream));
  DO(cudaStreamDestroy(stream));
  DO(cudaStreamDestroy(other));
  DO(cudaEventDestroy(begin));
  DO(cudaEventDestroy(end));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cudaEventSynchronize(end));
}

static void errors(void) {
  (void)cudaGetLastError();
  DO(cudaPeekAtLastError());
  EXPECT(CUDA_ERROR_INVALID_DEVICE, cudaSetDevice(77));
  DO(cudaDeviceSynchronize());
  HOLDS(cudaPeekAtLastError() == CUDA_ERROR_INVALID_DEVICE);
  HOLDS(cudaGetLastError() == CUDA_ERROR_INVALID_DEVICE);
  HOLDS(cudaGetLastError() == CUDA_SUCCESS);
  HOLDS(strcmp(cudaGetErrorName(101), "cudaErrorInvalidDevice") == 0);
  HOLDS(strcmp(cudaGetErrorString(101), "invalid device ordinal") == 0);
  HOLDS(strcmp(cudaGetErrorString(21), "invalid copy direction for memcpy") == 0);
  HOLDS(strcmp(cudaGetErrorName(12345), "unrecognized error code") == 0);
  HOLDS(strcmp(cudaGetErrorString(12345), "unrecognized error code") == 0);
  void *graph = NULL;
  EXPECT(CUDA_ERROR_NOT_SUPPORTED, cudaGraphCreate(&graph, 0));
}

static void kernels(void) {
  const char stub = 0;
  const struct dim3 grid = {2, 3, 4};
  struct dim3 kept = {0};
  size_t shared = 0;
  CUstream stream = CU_STREAM_LEGACY;
  void **binary = __cudaRegisterFatBinary(pattern);
  void **other = __cudaRegisterFatBinary(back);
  __cudaRegisterFunction(other, back, NULL, "another", -1, NULL, NULL, NULL, NULL, NULL);
  __cudaRegisterFunction(binary, &stub, NULL, "a_kernel", -1, NULL, NULL, NULL, NULL, NULL);
  __cudaRegisterFatBinaryEnd(binary);
  HOLDS(__cudaPushCallConfiguration(grid, grid, 64, NULL) == 0);
  DO(__cudaPopCallConfiguration(&kept, &kept, &shared, &stream));
  HOLDS(kept.z == 4 && shared == 64 && !stream);
  EXPECT(cudaErrorMissingConfiguration, __cudaPopCallConfiguration(&kept, &kept, &shared, &stream));
  EXPECT(cudaErrorNoKernelImageForDevice, cudaLaunchKernel(&stub, grid, grid, NULL, 0, NULL));
  EXPECT(cudaErrorNoKernelImageForDevice, cudaLaunchKernel(&stub, grid, grid, NULL, 0, NULL));
  __cudaUnregisterFatBinary(other);
  __cudaUnregisterFatBinary(binary);
}

static void *thread(void *of_main) {
  int device = -1;
  DO(cudaGetDevice(&device));
  HOLDS(device == 0); /* whatever the other thread's is */
  HOLDS(cudaPeekAtLastError() == CUDA_SUCCESS);
  expect_bytes(of_main, pattern, 64);
  return NULL;
}

static void threads(void) {
  pthread_t other;
  DO(cudaSetDevice(1));
  void *device = device_memory(SIZE);
  DO(cudaMemcpy(device, pattern, SIZE, cudaMemcpyHostToDevice));
  HOLDS(pthread_create(&other, NULL, thread, device) == 0);
  HOLDS(pthread_join(other, NULL) == 0);
  DO(cudaDeviceReset()); /* ends the memory with the context, which comes again */
  EXPECT(CUDA_ERROR_INVALID_VALUE, cudaFree(device));
  DO(cudaFree(device_memory(SIZE)));
}

/* The other process owns memory and an event; this one opens both. */
static int owner(int socket) {
  CUipcMemHandle handle;
  CUipcEventHandle mark;
  CUevent event = NULL;
  char byte = 0;
  DO(cudaSetDevice(0));
  void *device = device_memory(SIZE);
  DO(cudaEventCreateWithFlags(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
  DO(cudaMemcpyAsync(device, pattern, SIZE, cudaMemcpyHostToDevice, NULL));
  DO(cudaEventRecord(event, NULL));
  DO(cudaIpcGetMemHandle(&handle, device));
  DO(cudaIpcGetEventHandle(&mark, event));
  HOLDS(write(socket, &handle, sizeof handle) == sizeof handle);
  HOLDS(write(socket, &mark, sizeof mark) == sizeof mark);
  HOLDS(read(socket, &byte, 1) == 1);
  const unsigned char expected[] = {11, 11};
  expect_bytes((char *)device + SIZE - 2, expected, 2);
  return 0;
}

static void opener(int socket) {
  CUipcMemHandle handle;
  CUipcEventHandle mark;
  CUevent event = NULL;
  void *theirs = NULL;
  HOLDS(read(socket, &handle, sizeof handle) == sizeof handle);
  HOLDS(read(socket, &mark, sizeof mark) == sizeof mark);
  DO(cudaSetDevice(1));
  DO(cudaIpcOpenMemHandle(&theirs, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  DO(cudaIpcOpenEventHandle(&event, mark));
  DO(cudaEventSynchronize(event));
  expect_pointer(theirs, cudaMemoryTypeDevice, 0, false);
  expect_bytes(theirs, pattern, SIZE);
  DO(cudaMemset(theirs, 11, SIZE));
  DO(cudaIpcCloseMemHandle(theirs));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cudaIpcCloseMemHandle(theirs));
  DO(cudaEventDestroy(event));
  HOLDS(write(socket, "x", 1) == 1);
}

/* The state that processes share lies beside the machine file: both in a folder of this run. */
static void own_machine(const char *machine, char *folder) {
  char path[64];
  HOLDS(mkdtemp(folder));
  (void)snprintf(path, sizeof path, "%s/machine", folder);
  HOLDS(symlink(machine, path) == 0 && setenv("TOPOSEAT_EMULATED_MACHINE", path, 1) == 0);
}

static void remove_folder(const char *folder) {
  char path[64];
  (void)snprintf(path, sizeof path, "%s/machine", folder);
  (void)unlink(path);
  (void)snprintf(path, sizeof path, "%s/machine.state", folder);
  (void)unlink(path);
  (void)rmdir(folder);
}

int main(int count, char **arguments) {
  char folder[] = "/tmp/toposeat-runtime-XXXXXX";
  int pair[2];
  int status = 1;
  HOLDS(count == 2);
  own_machine(arguments[1], folder);
  for (size_t i = 0; i < SIZE; ++i)
    pattern[i] = (unsigned char)(i * 31 + 7);
  HOLDS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  const pid_t child = fork();
  if (child == 0) {
    (void)close(pair[0]);
    return owner(pair[1]);
  }
  (void)close(pair[1]);
  devices();
  peers();
  memory();
  rows();
  streams();
  errors();
  kernels();
  threads();
  opener(pair[0]);
  HOLDS(waitpid(child, &status, 0) == child && status == 0);
  (void)close(pair[0]);
  remove_folder(folder);
  return 0;
}
