/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Start-up of the stand-in driver: cuInit, versions, errors, and its refusal beside a real one. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "driver.h"
#include "say.h"
#include "state.h"

struct emu_driver emu_driver;

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;

void emu_lock(void) { (void)pthread_mutex_lock(&process_lock); }

void emu_unlock(void) { (void)pthread_mutex_unlock(&process_lock); }

static bool forced(void) {
  const char *force = getenv("TOPOSEAT_EMULATOR_FORCE");
  return force && strcmp(force, "1") == 0;
}

/* A job that has GPUs must never run on emulated ones by mistake. */
static bool beside_real_driver(void) {
  if (access("/proc/driver/nvidia/version", F_OK) != 0 && access("/dev/nvidiactl", F_OK) != 0)
    return false;
  if (forced())
    return false;
  emu_say("this node has a real NVIDIA driver: no emulated devices "
          "(TOPOSEAT_EMULATOR_FORCE=1 overrides)");
  return true;
}

/* Every allocation holds a file open. */
static void raise_file_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
  }
}

static CUresult initialize(void) {
  if (beside_real_driver())
    return CUDA_ERROR_NO_DEVICE;
  const struct emu_machine *machine = emu_machine();
  if (!machine || !emu_state_open(machine))
    return CUDA_ERROR_NO_DEVICE;
  emu_visible_devices(machine, &emu_driver.visible);
  emu_driver.machine = machine;
  raise_file_limit();
  if (!emu_is_quiet() && emu_state_first_here())
    emu_banner(machine->name, machine->devices);
  if (emu_driver.visible.count)
    return CUDA_SUCCESS;
  return emu_driver.visible.repeated ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_NO_DEVICE;
}

static CUresult init_result;

static void initialize_once(void) {
  init_result = initialize();
  emu_driver.initialized = init_result == CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuInit(unsigned flags) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (flags)
    return CUDA_ERROR_INVALID_VALUE;
  (void)pthread_once(&once, initialize_once);
  return init_result;
}

EMU_EXPORT CUresult cuDriverGetVersion(int *version) {
  if (!version)
    return CUDA_ERROR_INVALID_VALUE;
  *version = EMU_CUDA_VERSION;
  return CUDA_SUCCESS;
}

static const struct {
  CUresult code;
  const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_MAP_FAILED, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed"},
    {CUDA_ERROR_ALREADY_MAPPED, "CUDA_ERROR_ALREADY_MAPPED", "resource already mapped"},
    {CUDA_ERROR_NOT_MAPPED, "CUDA_ERROR_NOT_MAPPED", "resource not mapped"},
    {CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {CUDA_ERROR_FILE_NOT_FOUND, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {CUDA_ERROR_OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access"},
    {CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
     "peer access is already enabled"},
    {CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED",
     "peer access has not been enabled"},
    {CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE",
     "cannot set while device is active in this process"},
    {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

EMU_EXPORT CUresult cuGetErrorName(CUresult error, const char **text) {
  for (size_t i = 0; text && i < sizeof errors / sizeof errors[0]; ++i)
    if (errors[i].code == error) {
      *text = errors[i].name;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}

EMU_EXPORT CUresult cuGetErrorString(CUresult error, const char **text) {
  for (size_t i = 0; text && i < sizeof errors / sizeof errors[0]; ++i)
    if (errors[i].code == error) {
      *text = errors[i].text;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}

/* The newest version of a call, in this library and nowhere else. */
static void *newest(const char *name) {
  static void *self;
  char versioned[128];
  Dl_info here;
  if (!self && dladdr((const void *)&emu_driver, &here))
    self = dlopen(here.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
  for (int version = 3; self && version > 0; --version) {
    if (version > 1)
      (void)snprintf(versioned, sizeof versioned, "%s_v%d", name, version);
    else
      (void)snprintf(versioned, sizeof versioned, "%s", name);
    void *found = dlsym(self, versioned);
    if (found)
      return found;
  }
  return NULL;
}

EMU_EXPORT CUresult cuGetProcAddress_v2(const char *name, void **function, int version,
                                        uint64_t flags, int *status) {
  (void)version;
  (void)flags;
  if (!name || !function || strncmp(name, "cu", 2) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  *function = newest(name);
  if (status)
    *status = *function ? 0 : 1;
  const char *log = getenv("TOPOSEAT_EMULATOR_LOG");
  if (!*function && log && *log)
    emu_say("cuGetProcAddress: %s is not implemented", name);
  return *function || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND; /* the status tells */
}

EMU_EXPORT CUresult cuGetProcAddress(const char *name, void **function, int version,
                                     uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
