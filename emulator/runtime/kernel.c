/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Kernels do not run: what a program registers before main is kept for the message alone. Nor are
   there graphs. */
#include <pthread.h>
#include <stdlib.h>

#include "runtime.h"
#include "say.h"

/* What nvcc's code hands over; a handle is the address of its binary. */
struct function {
  struct function *next;
  void **binary;
  const void *kernel; /* its stub in the program */
  const char *name;
};

static struct function *functions;
static pthread_mutex_t functions_lock = PTHREAD_MUTEX_INITIALIZER;

RT_EXPORT void **__cudaRegisterFatBinary(void *image);
RT_EXPORT void **__cudaRegisterFatBinary(void *image) {
  void **binary = (void **)malloc(sizeof *binary);
  if (binary)
    *binary = image;
  return binary;
}

RT_EXPORT void __cudaRegisterFatBinaryEnd(void **binary);
RT_EXPORT void __cudaRegisterFatBinaryEnd(void **binary) { (void)binary; }

RT_EXPORT void __cudaUnregisterFatBinary(void **binary);
RT_EXPORT void __cudaUnregisterFatBinary(void **binary) {
  (void)pthread_mutex_lock(&functions_lock);
  for (struct function **at = &functions; *at;) {
    struct function *each = *at;
    if (each->binary == binary) {
      *at = each->next;
      free(each);
    } else
      at = &each->next;
  }
  (void)pthread_mutex_unlock(&functions_lock);
  free((void *)binary);
}

RT_EXPORT void __cudaRegisterFunction(void **binary, const char *kernel, char *device_name,
                                      const char *name, int threads, void *thread, void *block,
                                      void *block_size, void *grid_size, int *warp_size);
RT_EXPORT void __cudaRegisterFunction(void **binary, const char *kernel, char *device_name,
                                      const char *name, int threads, void *thread, void *block,
                                      void *block_size, void *grid_size, int *warp_size) {
  (void)device_name;
  (void)threads;
  (void)thread;
  (void)block;
  (void)block_size;
  (void)grid_size;
  (void)warp_size;
  struct function *made = malloc(sizeof *made);
  if (!made)
    return;
  (void)pthread_mutex_lock(&functions_lock);
  *made = (struct function){functions, binary, kernel, name};
  functions = made;
  (void)pthread_mutex_unlock(&functions_lock);
}

/* Variables of the device: calls that reach them are not supported. */
#define IGNORED(name)                                                                              \
  RT_EXPORT void name(void);                                                                       \
  RT_EXPORT void name(void) {}

IGNORED(__cudaRegisterVar)
IGNORED(__cudaRegisterHostVar)
IGNORED(__cudaRegisterUnifiedTable)

/* One that the host reaches as well is a pointer, which stays NULL. */
RT_EXPORT void __cudaRegisterManagedVar(void **binary, void **host, char *device_name,
                                        const char *name, int external, size_t bytes, int constant,
                                        int global);
RT_EXPORT void __cudaRegisterManagedVar(void **binary, void **host, char *device_name,
                                        const char *name, int external, size_t bytes, int constant,
                                        int global) {
  (void)binary;
  (void)host;
  (void)device_name;
  (void)external;
  (void)bytes;
  (void)constant;
  (void)global;
  emu_say("managed variable %s is not supported: it has no memory", name);
}

RT_EXPORT char __cudaInitModule(void **binary);
RT_EXPORT char __cudaInitModule(void **binary) {
  (void)binary;
  return 1;
}

CUresult rt_kernel(const void **found, const void *kernel) {
  *found = kernel;
  return CUDA_SUCCESS;
}

/* The answer of a real device for which the program holds no code. */
CUresult rt_no_kernel(const void *kernel) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  const char *name = "";
  (void)pthread_mutex_lock(&functions_lock);
  for (const struct function *each = functions; each; each = each->next)
    if (each->kernel == kernel)
      name = each->name;
  if (!atomic_flag_test_and_set(&said))
    emu_say("kernel %s does not run: no emulated device executes machine code (said once)", name);
  (void)pthread_mutex_unlock(&functions_lock);
  return cudaErrorNoKernelImageForDevice;
}

/* ---- the <<<...>>> of a launch, kept between its two halves */

static __thread struct {
  bool pushed;
  struct dim3 grid, block;
  size_t shared;
  CUstream stream;
} launch;

RT_EXPORT unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared,
                                               CUstream stream);
RT_EXPORT unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared,
                                               CUstream stream) {
  launch.pushed = true;
  launch.grid = grid;
  launch.block = block;
  launch.shared = shared;
  launch.stream = stream;
  return 0;
}

CUresult rt_pop_launch(struct dim3 *grid, struct dim3 *block, size_t *shared, CUstream *stream) {
  if (!launch.pushed)
    return cudaErrorMissingConfiguration;
  launch.pushed = false;
  *grid = launch.grid;
  *block = launch.block;
  *shared = launch.shared;
  *stream = launch.stream;
  return CUDA_SUCCESS;
}

CUresult rt_is_capturing(int *status) {
  if (!status)
    return CUDA_ERROR_INVALID_VALUE;
  *status = 0;
  return CUDA_SUCCESS;
}

CUresult rt_capture_mode(int *mode) {
  static __thread int mode_of_thread;
  if (!mode || *mode < 0 || *mode > 2)
    return CUDA_ERROR_INVALID_VALUE;
  const int before = mode_of_thread;
  mode_of_thread = *mode;
  *mode = before;
  return CUDA_SUCCESS;
}
