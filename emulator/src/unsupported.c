/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls that programs look up and that the stand-in answers with "not supported", as drivers do on
   machines that lack the feature: memory pools, events between processes, DMA buffers. */
#include "driver.h"

#define EMU_UNSUPPORTED(name)                                                                      \
  EMU_EXPORT CUresult name(void);                                                                  \
  EMU_EXPORT CUresult name(void) { return CUDA_ERROR_NOT_SUPPORTED; }

EMU_UNSUPPORTED(cuMemPoolCreate)
EMU_UNSUPPORTED(cuMemPoolDestroy)
EMU_UNSUPPORTED(cuMemPoolSetAccess)
EMU_UNSUPPORTED(cuMemPoolGetAccess)
EMU_UNSUPPORTED(cuMemPoolSetAttribute)
EMU_UNSUPPORTED(cuMemPoolGetAttribute)
EMU_UNSUPPORTED(cuMemPoolTrimTo)
EMU_UNSUPPORTED(cuMemPoolExportPointer)
EMU_UNSUPPORTED(cuMemPoolExportToShareableHandle)
EMU_UNSUPPORTED(cuMemPoolImportFromShareableHandle)
EMU_UNSUPPORTED(cuMemPoolImportPointer)
EMU_UNSUPPORTED(cuMemAllocAsync)
EMU_UNSUPPORTED(cuMemFreeAsync)
EMU_UNSUPPORTED(cuMemAllocFromPoolAsync)
EMU_UNSUPPORTED(cuDeviceGetDefaultMemPool)
EMU_UNSUPPORTED(cuDeviceGetMemPool)
EMU_UNSUPPORTED(cuDeviceSetMemPool)
EMU_UNSUPPORTED(cuIpcGetEventHandle)
EMU_UNSUPPORTED(cuIpcOpenEventHandle)
EMU_UNSUPPORTED(cuMemGetHandleForAddressRange)
EMU_UNSUPPORTED(cuMemRangeGetAttribute)
EMU_UNSUPPORTED(cuMemAdvise)
EMU_UNSUPPORTED(cuMemPrefetchAsync)
