/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Host memory of this side and device memory of the other: only a context on the other's device
   drives that device's copy engine (Ji et al.: attach). */
#include <string.h>

#include "link.h"

static bool make(tdc_link *link) {
  tdc_context *context = link->context;
  const struct tdc_driver *driver = context->driver;
  int device = -1;
  if (strcmp(context->pci, link->peer_pci) == 0 ||
      driver->device_by_pci(&device, link->peer_pci) != 0 || device == context->device)
    return false;
  if (driver->retain_primary(&link->attached, device) != 0)
    return false;
  link->attached_device = device;
  if (driver->set_current(link->attached) == 0 &&
      driver->stream_create(&link->attached_stream, 1) == 0)
    return true;
  (void)driver->release_primary(device);
  link->attached = NULL;
  return false;
}

void *tdc_attach(tdc_link *link, int *device) {
  const struct tdc_driver *driver = link->context->driver;
  if ((link->attached || make(link)) && driver->set_current(link->attached) == 0) {
    *device = link->attached_device;
    return link->attached_stream;
  }
  *device = link->context->device;
  (void)driver->set_current(link->context->primary);
  return link->context->stream;
}

void tdc_detach(tdc_link *link) {
  const struct tdc_driver *driver = link->context->driver;
  if (!link->attached)
    return;
  (void)driver->stream_destroy(link->attached_stream);
  (void)driver->release_primary(link->attached_device);
  link->attached = NULL;
  (void)driver->set_current(link->context->primary);
}
