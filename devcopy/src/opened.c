/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Memory of other processes that is open here: found by buffer, bounded in number, never stale. */
#include <string.h>

#include "link.h"

enum { POINTER_MEMORY_TYPE = 2, POINTER_BUFFER_ID = 7, TYPE_DEVICE = 2, HIP_TYPE_DEVICE = 2 };
enum { LAZY_PEER_ACCESS = 1 };

bool tdc_is_device_memory(tdc_context *context, uint64_t pointer) {
  int type = 0;
  const int code = context->driver->pointer_attribute(&type, POINTER_MEMORY_TYPE, pointer);
  return code == 0 && type == (context->driver->is_hip ? HIP_TYPE_DEVICE : TYPE_DEVICE);
}

tdc_result tdc_describe(tdc_context *context, uint64_t pointer, struct tdc_shared *shared,
                        int *file) {
  const struct tdc_driver *driver = context->driver;
  size_t size = 0;
  *file = -1;
  memset(shared, 0, sizeof *shared);
  if (!tdc_good(context, driver->address_range(&shared->base, &size, pointer)))
    return TDC_DRIVER;
  shared->size = size;
  shared->offset = pointer - shared->base;
  if (!tdc_good(context, driver->pointer_attribute(&shared->buffer_id, POINTER_BUFFER_ID, pointer)))
    return TDC_DRIVER;
  if (tdc_good(context, driver->ipc_get(&shared->handle, shared->base)))
    return TDC_OK;
  *file = tdc_export_virtual(context, pointer); /* memory of pools has neither */
  shared->by_file = *file >= 0;
  return *file >= 0 ? TDC_OK : TDC_DRIVER;
}

static void forget(tdc_context *context, unsigned number) {
  const struct tdc_opened *each = &context->opened[number];
  if (each->shared.by_file)
    tdc_unmap_virtual(context, each->pointer, (size_t)each->shared.size);
  else
    (void)context->driver->ipc_close(each->pointer);
  context->opened[number] = context->opened[--context->opened_count];
}

/* Closes all of this link that lies where `shared` lies but is another buffer. */
static bool close_stale(tdc_link *link, const struct tdc_shared *shared) {
  tdc_context *context = link->context;
  bool any = false;
  for (unsigned i = context->opened_count; i-- > 0;) {
    const struct tdc_opened *each = &context->opened[i];
    if (each->link == link && each->shared.base < shared->base + shared->size &&
        shared->base < each->shared.base + each->shared.size &&
        each->shared.buffer_id != shared->buffer_id) {
      forget(context, i);
      any = true;
    }
  }
  return any;
}

static void close_oldest(tdc_context *context) {
  unsigned oldest = 0;
  for (unsigned i = 1; i < context->opened_count; ++i)
    if (context->opened[i].last_used < context->opened[oldest].last_used)
      oldest = i;
  forget(context, oldest);
}

/* What is open already; NULL if it is not. */
static struct tdc_opened *find(tdc_link *link, const struct tdc_shared *shared, int device) {
  tdc_context *context = link->context;
  for (unsigned i = 0; i < context->opened_count; ++i) {
    struct tdc_opened *each = &context->opened[i];
    if (each->link == link && each->device == device &&
        each->shared.buffer_id == shared->buffer_id && each->shared.base == shared->base &&
        each->shared.size == shared->size)
      return each;
  }
  return NULL;
}

static tdc_result open_new(tdc_link *link, const struct tdc_shared *shared, int device,
                           uint64_t *base) {
  tdc_context *context = link->context;
  if (shared->by_file)
    return tdc_map_virtual(context, device, link->file, (size_t)shared->size, base);
  const int code = context->driver->ipc_open(base, shared->handle, LAZY_PEER_ACCESS);
  return tdc_good(context, code) ? TDC_OK : TDC_DRIVER;
}

tdc_result tdc_open_shared(tdc_link *link, const struct tdc_shared *shared, int device,
                           uint64_t *pointer, bool *was_open) {
  tdc_context *context = link->context;
  struct tdc_opened *found = find(link, shared, device);
  *was_open = found != NULL;
  if (!found) {
    uint64_t base = 0;
    (void)close_stale(link, shared);
    if (context->opened_count == context->options.cache_size)
      close_oldest(context);
    const tdc_result result = open_new(link, shared, device, &base);
    if (result != TDC_OK)
      return result;
    found = &context->opened[context->opened_count++];
    *found =
        (struct tdc_opened){.link = link, .shared = *shared, .device = device, .pointer = base};
  }
  found->last_used = ++context->use;
  *pointer = found->pointer + shared->offset;
  return TDC_OK;
}

void tdc_close_shared(tdc_context *context, uint64_t pointer) {
  for (unsigned i = 0; i < context->opened_count; ++i)
    if (context->opened[i].pointer <= pointer &&
        pointer < context->opened[i].pointer + context->opened[i].shared.size) {
      forget(context, i);
      return;
    }
}

void tdc_close_buffer(tdc_link *link, uint64_t base, uint64_t buffer_id) {
  tdc_context *context = link->context;
  for (unsigned i = context->opened_count; i-- > 0;)
    if (context->opened[i].link == link && context->opened[i].shared.base == base &&
        context->opened[i].shared.buffer_id == buffer_id)
      forget(context, i);
}

void tdc_close_all(tdc_context *context, const tdc_link *link) {
  for (unsigned i = context->opened_count; i-- > 0;)
    if (!link || context->opened[i].link == link)
      forget(context, i);
}
