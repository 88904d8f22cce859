/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Start-up, devices, and errors. */
#include <pthread.h>
#include <string.h>

#include "machine.h"
#include "runtime.h"
#include "say.h"

static __thread int device_of_thread;
static __thread cudaError_t last_error;

/* Held from the first use of a device until its reset. */
static CUcontext primary[EMU_MAX_DEVICES];
static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER;

/* A real driver does not have it: this library cannot be loaded beside one. */
static void *(*const of_stand_in)(CUdeviceptr,
                                  size_t)__attribute__((used)) = toposeat_emulator_memory;

CUresult rt_driver_ready(void) { return cuInit(0); }

CUresult rt_start(int device, CUcontext *context) {
  int devices = 0;
  CUresult result = cuDeviceGetCount(&devices);
  if (result == CUDA_SUCCESS && (device < 0 || device >= devices))
    result = CUDA_ERROR_INVALID_DEVICE;
  if (result != CUDA_SUCCESS)
    return result;
  (void)pthread_mutex_lock(&primary_lock);
  if (!primary[device])
    result = cuDevicePrimaryCtxRetain(&primary[device], device);
  *context = primary[device];
  (void)pthread_mutex_unlock(&primary_lock);
  return result;
}

CUresult rt_use(int device) {
  CUcontext context = NULL;
  CUresult result = rt_start(device, &context);
  if (result == CUDA_SUCCESS)
    result = cuCtxSetCurrent(context);
  if (result == CUDA_SUCCESS)
    device_of_thread = device;
  return result;
}

CUresult rt_ready(void) {
  CUcontext context = NULL;
  CUresult result = rt_driver_ready();
  if (result == CUDA_SUCCESS)
    result = cuCtxGetCurrent(&context);
  return result != CUDA_SUCCESS || context ? result : rt_use(device_of_thread);
}

/* A program may have made a context current with the driver's own calls. */
CUresult rt_device(int *device) {
  if (!device)
    return CUDA_ERROR_INVALID_VALUE;
  if (cuCtxGetDevice(device) != CUDA_SUCCESS)
    *device = device_of_thread;
  return CUDA_SUCCESS;
}

CUresult rt_reset(void) {
  int device = 0;
  (void)rt_device(&device);
  (void)pthread_mutex_lock(&primary_lock);
  primary[device] = NULL;
  const CUresult result = cuDevicePrimaryCtxReset_v2(device);
  (void)pthread_mutex_unlock(&primary_lock);
  return result;
}

CUresult rt_version(int *version) {
  if (!version)
    return CUDA_ERROR_INVALID_VALUE;
  *version = CUDART_MAJOR * 1000;
  return CUDA_SUCCESS;
}

CUresult rt_count(int *count) { return count ? cuDeviceGetCount(count) : CUDA_ERROR_INVALID_VALUE; }

CUresult rt_enable_peer(int peer, unsigned flags) {
  CUcontext context = NULL;
  const CUresult result = rt_start(peer, &context);
  return result == CUDA_SUCCESS ? cuCtxEnablePeerAccess(context, flags) : result;
}

CUresult rt_disable_peer(int peer) {
  CUcontext context = NULL;
  const CUresult result = rt_start(peer, &context);
  return result == CUDA_SUCCESS ? cuCtxDisablePeerAccess(context) : result;
}

/* ---- properties: what the driver answers one by one, in one struct; the rest is zero */

#define INT(member, attribute) {offsetof(struct cudaDeviceProp, member), sizeof(int), attribute}
#define SIZE(member, attribute) {offsetof(struct cudaDeviceProp, member), sizeof(size_t), attribute}

static const struct {
  size_t at, size;
  int attribute;
} members[] = {
    SIZE(sharedMemPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
    INT(regsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
    INT(warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE),
    SIZE(memPitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH),
    INT(maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
    INT(maxThreadsDim[0], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X),
    INT(maxThreadsDim[1], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
    INT(maxThreadsDim[2], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z),
    INT(maxGridSize[0], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X),
    INT(maxGridSize[1], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
    INT(maxGridSize[2], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z),
    SIZE(totalConstMem, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
    INT(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
    INT(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
    INT(multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
    INT(canMapHostMemory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY),
    INT(concurrentKernels, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS),
    INT(pciBusID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
    INT(pciDeviceID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID),
    INT(pciDomainID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
    INT(asyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT),
    INT(unifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING),
    INT(managedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY),
    INT(canUseHostPointerForRegisteredMem,
        CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM),
    INT(memoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED),
    INT(memoryPoolSupportedHandleTypes, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES),
#if CUDART_MAJOR < 13
    INT(clockRate, CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
    INT(deviceOverlap, CU_DEVICE_ATTRIBUTE_GPU_OVERLAP),
#endif
};

CUresult rt_describe(struct cudaDeviceProp *properties, size_t bytes, int device) {
  struct cudaDeviceProp all;
  memset(&all, 0, sizeof all);
  if (!properties)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = cuDeviceGetName(all.name, sizeof all.name, device);
  if (result == CUDA_SUCCESS)
    result = cuDeviceGetUuid(&all.uuid, device);
  if (result == CUDA_SUCCESS)
    result = cuDeviceTotalMem_v2(&all.totalGlobalMem, device);
  for (size_t i = 0; result == CUDA_SUCCESS && i < sizeof members / sizeof members[0]; ++i) {
    int value = 0;
    result = cuDeviceGetAttribute(&value, members[i].attribute, device);
    const size_t wide = (size_t)value;
    const void *from = members[i].size == sizeof wide ? (const void *)&wide : (const void *)&value;
    memcpy((char *)&all + members[i].at, from, members[i].size);
  }
  if (result == CUDA_SUCCESS)
    memcpy(properties, &all, bytes);
  return result;
}

/* ---- errors */

cudaError_t rt_answer(CUresult result) {
  if (result != CUDA_SUCCESS)
    last_error = result;
  return result;
}

cudaError_t rt_unsupported(atomic_flag *said, const char *name) {
  if (!atomic_flag_test_and_set(said))
    emu_say("%s is not supported (said once)", name);
  return rt_answer(CUDA_ERROR_NOT_SUPPORTED);
}

RT_EXPORT cudaError_t cudaGetLastError(void);
RT_EXPORT cudaError_t cudaGetLastError(void) {
  const cudaError_t error = last_error;
  last_error = CUDA_SUCCESS;
  return error;
}

RT_EXPORT cudaError_t cudaPeekAtLastError(void);
RT_EXPORT cudaError_t cudaPeekAtLastError(void) { return last_error; }

/* A text where the runtime has its own, else the driver's. */
static const struct {
  cudaError_t code;
  const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "cudaSuccess", NULL},
    {CUDA_ERROR_INVALID_VALUE, "cudaErrorInvalidValue", NULL},
    {CUDA_ERROR_OUT_OF_MEMORY, "cudaErrorMemoryAllocation", NULL},
    {CUDA_ERROR_NOT_INITIALIZED, "cudaErrorInitializationError", NULL},
    {cudaErrorInvalidPitchValue, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {cudaErrorMissingConfiguration, "cudaErrorMissingConfiguration",
     "__global__ function call is not configured"},
    {CUDA_ERROR_NO_DEVICE, "cudaErrorNoDevice", NULL},
    {CUDA_ERROR_INVALID_DEVICE, "cudaErrorInvalidDevice", NULL},
    {CUDA_ERROR_INVALID_IMAGE, "cudaErrorInvalidKernelImage", NULL},
    {CUDA_ERROR_INVALID_CONTEXT, "cudaErrorDeviceUninitialized", NULL},
    {CUDA_ERROR_MAP_FAILED, "cudaErrorMapBufferObjectFailed", NULL},
    {CUDA_ERROR_ALREADY_MAPPED, "cudaErrorAlreadyMapped", NULL},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {CUDA_ERROR_NOT_MAPPED, "cudaErrorNotMapped", NULL},
    {CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "cudaErrorPeerAccessUnsupported", NULL},
    {CUDA_ERROR_FILE_NOT_FOUND, "cudaErrorFileNotFound", NULL},
    {CUDA_ERROR_OPERATING_SYSTEM, "cudaErrorOperatingSystem", NULL},
    {CUDA_ERROR_INVALID_HANDLE, "cudaErrorInvalidResourceHandle", NULL},
    {CUDA_ERROR_NOT_FOUND, "cudaErrorSymbolNotFound", NULL},
    {CUDA_ERROR_NOT_READY, "cudaErrorNotReady", NULL},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "cudaErrorIllegalAddress", NULL},
    {CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "cudaErrorPeerAccessAlreadyEnabled", NULL},
    {CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "cudaErrorPeerAccessNotEnabled", NULL},
    {CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "cudaErrorSetOnActiveProcess", NULL},
    {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "cudaErrorHostMemoryAlreadyRegistered", NULL},
    {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "cudaErrorHostMemoryNotRegistered", NULL},
    {CUDA_ERROR_NOT_SUPPORTED, "cudaErrorNotSupported", NULL},
    {CUDA_ERROR_UNKNOWN, "cudaErrorUnknown", NULL},
};

static const char unrecognized[] = "unrecognized error code";

RT_EXPORT const char *cudaGetErrorName(cudaError_t error);
RT_EXPORT const char *cudaGetErrorName(cudaError_t error) {
  for (size_t i = 0; i < sizeof errors / sizeof errors[0]; ++i)
    if (errors[i].code == error)
      return errors[i].name;
  return unrecognized;
}

RT_EXPORT const char *cudaGetErrorString(cudaError_t error);
RT_EXPORT const char *cudaGetErrorString(cudaError_t error) {
  const char *text = unrecognized;
  for (size_t i = 0; i < sizeof errors / sizeof errors[0]; ++i)
    if (errors[i].code == error && errors[i].text)
      return errors[i].text;
  (void)cuGetErrorString(error, &text);
  return text;
}
