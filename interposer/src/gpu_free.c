/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every function that frees device memory, or unregisters memory from the runtime, is exported in
 * front of the GPU runtimes' own: cached answers (gpu.c) are dropped before and after the real
 * call. Only calls that the dynamic linker resolves come here. A statically linked CUDA runtime,
 * and code that gets the driver's entry points from dlsym or cuGetProcAddress, frees without them;
 * for those, answers also expire.
 *
 * Without such a runtime these functions exist all the same, and return that it is not initialised.
 */
#include "gpu.h"

#define NOT_INITIALISED 3 /* CUDA, its driver and HIP agree */
#define ZE_NOT_INITIALISED 0x78000001

/* The symbol that `caller`'s library would find among its own dependencies. */
static void *find_near(const void *caller, const char *name) {
  Dl_info info;
  if (dladdr(caller, &info) == 0 || info.dli_fname == NULL)
    return NULL;
  void *library = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
  if (library == NULL)
    return NULL;
  void *found = dlsym(library, name);
  dlclose(library);
  return found;
}

/*
 * As without this library: first the global scope, then that of the caller; at last any runtime,
 * for callers that looked the symbol up themselves.
 */
tps_function *tps__gpu_real(const char *name, const void *caller) {
  static const char *const runtimes[] = {"libcudart", "libcuda.so", "libamdhip64", "libze_loader",
                                         NULL};
  union tps_address found = {.object = dlsym(RTLD_NEXT, name)};
  if (found.object == NULL) {
    found.object = find_near(caller, name);
    /* The caller may be the program itself, whose scope begins with this library. */
    if (found.object == dlsym(RTLD_DEFAULT, name))
      found.object = NULL;
  }
  if (found.object == NULL) {
    void *library = tps__library_with(runtimes, name);
    if (library != NULL) {
      found.object = dlsym(library, name);
      dlclose(library);
    }
  }
  return found.function;
}

#define PARAMETERS_1 uintptr_t a
#define PARAMETERS_2 uintptr_t a, uintptr_t b
#define PARAMETERS_3 uintptr_t a, uintptr_t b, uintptr_t c
#define ARGUMENTS_1 a
#define ARGUMENTS_2 a, b
#define ARGUMENTS_3 a, b, c

#define FREES(name, count, failure)                                                                \
  TPS_EXPORT int name(PARAMETERS_##count);                                                         \
  int name(PARAMETERS_##count) {                                                                   \
    typedef int real_call(PARAMETERS_##count);                                                     \
    real_call *real = (real_call *)tps__gpu_real(#name, __builtin_return_address(0));              \
    if (real == NULL)                                                                              \
      return failure;                                                                              \
    tps__gpu_forget();                                                                             \
    int code = real(ARGUMENTS_##count);                                                            \
    tps__gpu_forget();                                                                             \
    return code;                                                                                   \
  }

FREES(cudaFree, 1, NOT_INITIALISED)
FREES(cudaFreeAsync, 2, NOT_INITIALISED)
FREES(cudaFreeAsync_ptsz, 2, NOT_INITIALISED)
FREES(cudaFreeHost, 1, NOT_INITIALISED)
FREES(cudaHostUnregister, 1, NOT_INITIALISED)
FREES(cudaIpcCloseMemHandle, 1, NOT_INITIALISED)
FREES(cuMemFree, 1, NOT_INITIALISED)
FREES(cuMemFree_v2, 1, NOT_INITIALISED)
FREES(cuMemFreeAsync, 2, NOT_INITIALISED)
FREES(cuMemFreeAsync_ptsz, 2, NOT_INITIALISED)
FREES(cuMemFreeHost, 1, NOT_INITIALISED)
FREES(cuMemHostUnregister, 1, NOT_INITIALISED)
FREES(cuMemUnmap, 2, NOT_INITIALISED)
FREES(cuIpcCloseMemHandle, 1, NOT_INITIALISED)
FREES(hipFree, 1, NOT_INITIALISED)
FREES(hipFreeAsync, 2, NOT_INITIALISED)
FREES(hipHostFree, 1, NOT_INITIALISED)
FREES(hipFreeHost, 1, NOT_INITIALISED)
FREES(hipHostUnregister, 1, NOT_INITIALISED)
FREES(hipMemUnmap, 2, NOT_INITIALISED)
FREES(hipIpcCloseMemHandle, 1, NOT_INITIALISED)
FREES(zeMemFree, 2, ZE_NOT_INITIALISED)
FREES(zeMemFreeExt, 3, ZE_NOT_INITIALISED)
FREES(zeVirtualMemUnmap, 3, ZE_NOT_INITIALISED)
