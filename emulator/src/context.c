/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Contexts: the primary one of each device, and others. */
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "state.h"

static CUcontext primary[EMU_MAX_DEVICES];

static CUcontext make(CUdevice device, bool is_primary, unsigned flags) {
  static uint64_t last_id;
  CUcontext context = calloc(1, sizeof *context);
  if (!context || !emu_keep_context(context)) {
    free(context);
    return NULL;
  }
  context->id = ++last_id;
  context->device = device;
  context->physical = emu_driver.visible.physical[device];
  context->primary = is_primary;
  context->flags = flags;
  context->null_stream = emu_new_stream(context, 0);
  if (!context->null_stream) {
    emu_forget_context(context);
    free(context);
    return NULL;
  }
  return context;
}

/* Ends a context and all that lives in it. Call with the lock held. */
static void destroy(CUcontext context) {
  emu_forget_context(context);
  emu_delete_streams(context);
  for (unsigned i = emu_allocations(); i-- > 0;) {
    struct emu_memory *memory = emu_allocation(i);
    if (memory->context != context || memory->kind == EMU_HOST || memory->is_virtual)
      continue;
    if (!memory->imported)
      (void)emu_take_memory(emu_driver.machine, memory->physical, -(int64_t)memory->mapped);
    emu_remove(memory);
  }
  free(context);
}

EMU_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  EMU_NEEDS_INIT();
  if (!context)
    return CUDA_ERROR_INVALID_VALUE;
  if (!emu_is_ordinal(device))
    return CUDA_ERROR_INVALID_DEVICE;
  emu_lock();
  if (!primary[device])
    primary[device] = make(device, true, 0);
  CUcontext found = primary[device];
  if (found)
    ++found->references;
  emu_unlock();
  *context = found;
  return found ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult give_up_primary(CUdevice device, bool all) {
  EMU_NEEDS_INIT();
  if (!emu_is_ordinal(device))
    return CUDA_ERROR_INVALID_DEVICE;
  emu_lock();
  CUcontext context = primary[device];
  emu_unlock();
  if (!context)
    return all ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  if (all || context->references == 1)
    emu_drain(context);
  emu_lock();
  context->references = all ? 0 : context->references - 1;
  if (context->references == 0) {
    primary[device] = NULL;
    destroy(context);
  }
  emu_unlock();
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return give_up_primary(device, false);
}

EMU_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return give_up_primary(device, true);
}

EMU_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  EMU_NEEDS_INIT();
  if (!emu_is_ordinal(device))
    return CUDA_ERROR_INVALID_DEVICE;
  if (!flags || !active)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  *active = primary[device] != NULL;
  *flags = primary[device] ? primary[device]->flags : 0;
  emu_unlock();
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  EMU_NEEDS_INIT();
  if (!emu_is_ordinal(device))
    return CUDA_ERROR_INVALID_DEVICE;
  emu_lock();
  if (primary[device])
    primary[device]->flags = flags;
  emu_unlock();
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
  EMU_NEEDS_INIT();
  if (!context)
    return CUDA_ERROR_INVALID_VALUE;
  if (!emu_is_ordinal(device))
    return CUDA_ERROR_INVALID_DEVICE;
  if (!emu_push(NULL))
    return CUDA_ERROR_UNKNOWN;
  emu_lock();
  *context = make(device, false, flags);
  emu_unlock();
  (void)emu_pop(NULL);
  if (!*context)
    return CUDA_ERROR_OUT_OF_MEMORY;
  (void)emu_push(*context);
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
  EMU_NEEDS_INIT();
  emu_lock();
  const bool lives = emu_context_lives(context);
  emu_unlock();
  if (!lives || context->primary)
    return CUDA_ERROR_INVALID_CONTEXT;
  emu_drain(context);
  emu_lock();
  if (emu_current() == context)
    (void)emu_pop(NULL);
  destroy(context);
  emu_unlock();
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
  EMU_NEEDS_INIT();
  emu_lock();
  const bool lives = emu_context_lives(context);
  emu_unlock();
  if (!lives)
    return CUDA_ERROR_INVALID_CONTEXT;
  return emu_push(context) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

EMU_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  EMU_NEEDS_INIT();
  return emu_pop(context) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

EMU_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  EMU_NEEDS_INIT();
  emu_lock();
  const bool lives = emu_context_lives(context);
  emu_unlock();
  if (context && !lives)
    return CUDA_ERROR_INVALID_CONTEXT;
  (void)emu_pop(NULL);
  if (context)
    (void)emu_push(context);
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuCtxGetCurrent(CUcontext *context) {
  EMU_NEEDS_INIT();
  if (!context)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  *context = emu_current();
  emu_unlock();
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuCtxGetDevice(CUdevice *device) {
  EMU_NEEDS_INIT();
  if (!device)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  CUcontext context = emu_current();
  if (context)
    *device = context->device;
  emu_unlock();
  return context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

EMU_EXPORT CUresult cuCtxGetId(CUcontext context, unsigned long long *id) {
  EMU_NEEDS_INIT();
  if (!id)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  CUcontext which = context ? context : emu_current();
  const bool lives = emu_context_lives(which);
  if (lives)
    *id = which->id;
  emu_unlock();
  return lives ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

EMU_EXPORT CUresult cuCtxGetFlags(unsigned *flags) {
  EMU_NEEDS_INIT();
  if (!flags)
    return CUDA_ERROR_INVALID_VALUE;
  emu_lock();
  CUcontext context = emu_current();
  if (context)
    *flags = context->flags;
  emu_unlock();
  return context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

EMU_EXPORT CUresult cuCtxSetFlags(unsigned flags) {
  EMU_NEEDS_INIT();
  emu_lock();
  CUcontext context = emu_current();
  if (context)
    context->flags = flags;
  emu_unlock();
  return context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

EMU_EXPORT CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version) {
  EMU_NEEDS_INIT();
  emu_lock();
  const bool lives = !context || emu_context_lives(context);
  emu_unlock();
  if (!lives || !version)
    return lives ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_CONTEXT;
  *version = 3020;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  EMU_NEEDS_INIT();
  if (least)
    *least = 0;
  if (greatest)
    *greatest = 0;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuCtxSynchronize(void) {
  EMU_NEEDS_INIT();
  emu_lock();
  CUcontext context = emu_current();
  emu_unlock();
  if (!context)
    return CUDA_ERROR_INVALID_CONTEXT;
  emu_drain(context);
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  EMU_NEEDS_INIT();
  CUresult result = CUDA_SUCCESS;
  emu_lock();
  CUcontext context = emu_current();
  if (flags)
    result = CUDA_ERROR_INVALID_VALUE;
  else if (!context || !emu_context_lives(peer))
    result = CUDA_ERROR_INVALID_CONTEXT;
  else if (context->physical == peer->physical ||
           !emu_way(emu_driver.machine, context->physical, peer->physical)->peer)
    result = CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  else if (context->peer[peer->physical])
    result = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  else
    context->peer[peer->physical] = true;
  emu_unlock();
  return result;
}

EMU_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  EMU_NEEDS_INIT();
  CUresult result = CUDA_SUCCESS;
  emu_lock();
  CUcontext context = emu_current();
  if (!context || !emu_context_lives(peer))
    result = CUDA_ERROR_INVALID_CONTEXT;
  else if (!context->peer[peer->physical])
    result = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  else
    context->peer[peer->physical] = false;
  emu_unlock();
  return result;
}
