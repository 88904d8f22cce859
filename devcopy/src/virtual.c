/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Virtual memory (cuMemCreate, cuMemMap) has no IPC handle. Where it was made with a handle type
   that can be exported, a file descriptor takes its place. */
#include "link.h"

enum { POSIX_FILE_DESCRIPTOR = 1, LOCATION_DEVICE = 1, READ_WRITE = 3 };

/* A file descriptor of the allocation behind a pointer; -1 if it has none. */
int tdc_export_virtual(tdc_context *context, uint64_t pointer) {
  const struct tdc_driver *driver = context->driver;
  uint64_t handle = 0;
  int file = -1;
  if (!driver->has_virtual || driver->retain_handle(&handle, (void *)(uintptr_t)pointer) != 0)
    return -1;
  if (!tdc_good(context, driver->export_handle(&file, handle, POSIX_FILE_DESCRIPTOR, 0)))
    file = -1;
  (void)driver->release_handle(handle);
  return file;
}

tdc_result tdc_map_virtual(tdc_context *context, int device, int file, size_t size,
                           uint64_t *pointer) {
  const struct tdc_driver *driver = context->driver;
  const struct tdc_access access = {LOCATION_DEVICE, device, READ_WRITE};
  uint64_t handle = 0;
  if (!driver->has_virtual || file < 0 ||
      !tdc_good(context,
                driver->import_handle(&handle, (void *)(intptr_t)file, POSIX_FILE_DESCRIPTOR)))
    return TDC_DRIVER;
  bool good = tdc_good(context, driver->reserve(pointer, size, 0, 0, 0));
  if (good) {
    good = tdc_good(context, driver->map(*pointer, size, 0, handle, 0));
    if (good && !tdc_good(context, driver->set_access(*pointer, size, &access, 1))) {
      (void)driver->unmap(*pointer, size);
      good = false;
    }
    if (!good)
      (void)driver->free_addresses(*pointer, size);
  }
  (void)driver->release_handle(handle); /* what is mapped stays */
  return good ? TDC_OK : TDC_DRIVER;
}

void tdc_unmap_virtual(tdc_context *context, uint64_t pointer, size_t size) {
  (void)context->driver->unmap(pointer, size);
  (void)context->driver->free_addresses(pointer, size);
}
