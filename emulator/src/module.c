/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Modules and kernels. A real GPU runs a module's PTX; the stand-in runs, for a kernel `name`, the
   host function `toposeat_host_<name>` that the program exports. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

enum { MAX_ARGUMENTS = 64, MAX_NAME = 128 };

struct CUfunc_st {
  struct CUfunc_st *next;
  char name[MAX_NAME];
  emu_kernel kernel;
  unsigned arguments;
  unsigned size[MAX_ARGUMENTS]; /* bytes of each, as the PTX declares them */
};

struct CUmod_st {
  char *text;
  struct CUfunc_st *functions;
};

EMU_EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  EMU_NEEDS_INIT();
  if (!module || !image)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  const bool has_context = emu_current() != NULL;
  emu_unlock();
  if (!has_context)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (!strstr((const char *)image, ".version")) /* cubins and fat binaries hold machine code */
    return CUDA_ERROR_INVALID_IMAGE;
  CUmodule made = calloc(1, sizeof *made);
  if (made)
    made->text = strdup((const char *)image);
  if (!made || !made->text) {
    free(made);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *module = made;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                                       int *options, void **values) {
  (void)count;
  (void)options;
  (void)values;
  return cuModuleLoadData(module, image);
}

EMU_EXPORT CUresult cuModuleUnload(CUmodule module) {
  EMU_NEEDS_INIT();
  if (!module)
    return CUDA_ERROR_INVALID_VALUE;
  emu_drain_all();
  while (module->functions) {
    CUfunction function = module->functions;
    module->functions = function->next;
    free(function);
  }
  free(module->text);
  free(module);
  return CUDA_SUCCESS;
}

/* Where the parameters of an entry are declared; NULL if the module has no such entry. */
static const char *entry_of(const char *text, const char *name) {
  const size_t length = strlen(name);
  for (const char *at = strstr(text, ".entry"); at; at = strstr(at + 1, ".entry")) {
    const char *found = at + strlen(".entry");
    found += strspn(found, " \t\r\n");
    if (strncmp(found, name, length) == 0 && strchr(" \t\r\n(", found[length]))
      return found + length;
  }
  return NULL;
}

static unsigned size_of_type(const char *type) {
  if (strncmp(type, "64", 2) == 0)
    return 8;
  if (strncmp(type, "32", 2) == 0)
    return 4;
  if (strncmp(type, "16", 2) == 0)
    return 2;
  return 1;
}

/* Reads ".param .u64 name, .param .f32 name ..." up to the closing bracket. */
static bool read_parameters(const char *text, CUfunction function) {
  const char *open = text + strspn(text, " \t\r\n");
  if (*open != '(')
    return true; /* an entry without parameters */
  const char *end = strchr(open, ')');
  if (!end)
    return false;
  for (const char *at = strstr(open, ".param"); at && at < end; at = strstr(at + 1, ".param")) {
    const char *type = at + strlen(".param");
    type += strspn(type, " \t\r\n.");
    type += strspn(type, "usfb");
    if (function->arguments == MAX_ARGUMENTS)
      return false;
    function->size[function->arguments++] = size_of_type(type);
  }
  return true;
}

EMU_EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  EMU_NEEDS_INIT();
  if (!function || !module || !name || strlen(name) >= MAX_NAME)
    return CUDA_ERROR_INVALID_VALUE;
  const char *parameters = entry_of(module->text, name);
  char symbol[MAX_NAME + 32];
  (void)snprintf(symbol, sizeof symbol, "toposeat_host_%s", name);
  void *host = parameters ? dlsym(RTLD_DEFAULT, symbol) : NULL;
  if (!host)
    return CUDA_ERROR_NOT_FOUND;
  CUfunction made = calloc(1, sizeof *made);
  if (!made)
    return CUDA_ERROR_OUT_OF_MEMORY;
  (void)snprintf(made->name, sizeof made->name, "%s", name);
  memcpy((void *)&made->kernel, (const void *)&host, sizeof host);
  if (!read_parameters(parameters, made)) {
    free(made);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  emu_lock();
  made->next = module->functions;
  module->functions = made;
  emu_unlock();
  *function = made;
  return CUDA_SUCCESS;
}

/* The arguments' values at the moment of the launch, behind their pointers, in one block. */
static void **copy_arguments(const struct CUfunc_st *function, void **arguments) {
  size_t bytes = 0;
  for (unsigned i = 0; i < function->arguments; ++i)
    bytes += 8;
  void **block = (void **)calloc(1, (function->arguments + 1) * sizeof(void *) + bytes);
  if (!block)
    return NULL;
  char *values = (char *)(block + function->arguments + 1);
  for (unsigned i = 0; i < function->arguments; ++i) {
    memcpy(values + (size_t)i * 8, arguments[i], function->size[i]);
    block[i] = values + (size_t)i * 8;
  }
  return block;
}

EMU_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared, CUstream stream,
                                   void **arguments, void **extra) {
  (void)shared;
  EMU_NEEDS_INIT();
  const unsigned grid[3] = {grid_x, grid_y, grid_z};
  const unsigned block[3] = {block_x, block_y, block_z};
  for (int i = 0; i < 3; ++i)
    if (!grid[i] || !block[i])
      return CUDA_ERROR_INVALID_VALUE;
  if (!function || (!arguments && function->arguments) || extra ||
      (uint64_t)block_x * block_y * block_z > 1024)
    return extra ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  void **copied = copy_arguments(function, arguments);
  return copied ? emu_queue_kernel(stream, function->kernel, copied, grid, block)
                : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Where a host function finds the memory behind a device pointer: the only way to reach it. */
EMU_EXPORT void *toposeat_emulator_memory(CUdeviceptr pointer, size_t bytes) {
  struct emu_place place;
  emu_lock();
  const CUresult result = emu_resolve(pointer, bytes, &place);
  emu_unlock();
  return result == CUDA_SUCCESS ? place.bytes : NULL;
}
