/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls that programs look up and that the stand-in answers with "not supported", as drivers do on
   machines that lack the feature: DMA buffers, hints and prefetches of managed memory. */
#include "driver.h"

#define EMU_UNSUPPORTED(name)                                                                      \
  EMU_EXPORT CUresult name(void);                                                                  \
  EMU_EXPORT CUresult name(void) { return CUDA_ERROR_NOT_SUPPORTED; }

EMU_UNSUPPORTED(cuMemGetHandleForAddressRange)
EMU_UNSUPPORTED(cuMemRangeGetAttribute)
EMU_UNSUPPORTED(cuMemAdvise)
EMU_UNSUPPORTED(cuMemPrefetchAsync)
