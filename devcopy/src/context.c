/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Contexts: a device, its memory, and freeing in two phases. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "link.h"

int tdc_driver_error(const tdc_context *context) { return context->driver_error; }

static void set_options(tdc_context *context, const tdc_options *given) {
  if (given)
    context->options = *given;
  tdc_options *options = &context->options;
  if (options->chunk == 0)
    options->chunk = (size_t)512 * 1024;
  if (options->depth == 0)
    options->depth = 4;
  if (options->depth > TDC_MAX_DEPTH)
    options->depth = TDC_MAX_DEPTH;
  if (options->cache_size == 0)
    options->cache_size = 64;
  if (!(options->timeout_s > 0))
    options->timeout_s = 30;
}

static tdc_result start(tdc_context *context) {
  const struct tdc_driver *driver = context->driver;
  if (!tdc_good(context, driver->retain_primary(&context->primary, context->device)))
    return TDC_DRIVER;
  bool good =
      tdc_good(context, driver->set_current(context->primary)) &&
      tdc_good(context, driver->pci_bus_id(context->pci, TDC_PCI_LENGTH, context->device)) &&
      tdc_good(context, driver->stream_create(&context->stream, 1));
  for (unsigned i = 0; good && i < TDC_MAX_DEPTH; ++i)
    good = tdc_good(context, driver->event_create(&context->events[i], 2)); /* without timing */
  for (char *at = context->pci; *at; ++at)
    *at = (char)tolower((unsigned char)*at);
  return good ? TDC_OK : TDC_DRIVER;
}

tdc_result tdc_open(int device, const tdc_options *options, tdc_context **result) {
  const struct tdc_driver *driver = tdc_load_driver();
  if (!result)
    return TDC_ARGUMENT;
  *result = NULL;
  if (!driver)
    return TDC_NO_DRIVER;
  int count = 0;
  if (driver->device_count(&count) != 0 || device < 0 || device >= count)
    return TDC_ARGUMENT;
  tdc_context *context = calloc(1, sizeof *context);
  if (!context)
    return TDC_MEMORY;
  context->driver = driver;
  context->device = device;
  set_options(context, options);
  context->opened = calloc(context->options.cache_size, sizeof *context->opened);
  const tdc_result started = context->opened ? start(context) : TDC_MEMORY;
  if (started != TDC_OK) {
    tdc_close(context);
    return started;
  }
  *result = context;
  return TDC_OK;
}

void tdc_close(tdc_context *context) {
  if (!context)
    return;
  const struct tdc_driver *driver = context->driver;
  if (context->stream)
    (void)driver->stream_synchronize(context->stream);
  while (context->links)
    tdc_disconnect(context->links);
  for (unsigned i = 0; i < context->freed_count; ++i)
    (void)driver->free(context->freed[i].base);
  for (unsigned i = 0; i < context->owned_count; ++i)
    (void)driver->free(context->owned[i]);
  for (unsigned i = 0; i < TDC_MAX_DEPTH; ++i)
    if (context->events[i])
      (void)driver->event_destroy(context->events[i]);
  if (context->stream)
    (void)driver->stream_destroy(context->stream);
  if (context->primary)
    (void)driver->release_primary(context->device);
  free(context->owned);
  free(context->freed);
  free(context->opened);
  free(context);
}

/* ---- memory */

tdc_result tdc_allocate(tdc_context *context, size_t bytes, uint64_t *pointer) {
  if (!bytes || !pointer)
    return TDC_ARGUMENT;
  uint64_t *grown = realloc(context->owned, (context->owned_count + 1) * sizeof *grown);
  if (!grown)
    return TDC_MEMORY;
  context->owned = grown;
  if (!tdc_good(context, context->driver->set_current(context->primary)) ||
      !tdc_good(context, context->driver->allocate(pointer, bytes)))
    return TDC_DRIVER;
  context->owned[context->owned_count++] = *pointer;
  return TDC_OK;
}

tdc_result tdc_free(tdc_context *context, uint64_t pointer) {
  unsigned at = 0;
  while (at < context->owned_count && context->owned[at] != pointer)
    ++at;
  if (at == context->owned_count)
    return TDC_ARGUMENT;
  struct tdc_shared *grown = realloc(context->freed, (context->freed_count + 1) * sizeof *grown);
  if (!grown)
    return TDC_MEMORY;
  context->freed = grown;
  int file = -1; /* what is allocated here has a handle */
  const tdc_result result = tdc_describe(context, pointer, &grown[context->freed_count], &file);
  if (file >= 0)
    (void)close(file);
  if (result != TDC_OK)
    return result;
  ++context->freed_count;
  context->owned[at] = context->owned[--context->owned_count];
  return TDC_OK;
}

/* Asks every peer to close every freed buffer. A peer that is gone has closed all. */
static void ask_to_close(tdc_context *context) {
  for (tdc_link *link = context->links; link; link = link->next)
    for (unsigned i = context->asked_count; i < context->freed_count && link->fault == TDC_OK;
         ++i) {
      struct tdc_message message = {.kind = TDC_FREE, .shared = context->freed[i]};
      if (tdc_say(link, &message, -1) == TDC_OK)
        ++link->unanswered_frees;
    }
  context->asked_count = context->freed_count;
}

static bool all_answered(const tdc_context *context) {
  for (const tdc_link *link = context->links; link; link = link->next)
    if (link->fault == TDC_OK && link->unanswered_frees)
      return false;
  return true;
}

tdc_result tdc_commit_frees(tdc_context *context) {
  if (context->freed_count == 0)
    return TDC_OK;
  const double deadline = tdc_now() + context->options.timeout_s;
  ask_to_close(context); /* about those that an earlier call, out of time, has not asked about */
  while (!all_answered(context)) {
    if (tdc_now() > deadline)
      return TDC_TIMEOUT;
    const tdc_result result = tdc_pump(context, 0.05);
    if (result != TDC_OK)
      return result;
  }
  tdc_result result = TDC_OK;
  for (unsigned i = 0; i < context->freed_count; ++i)
    if (!tdc_good(context, context->driver->free(context->freed[i].base)))
      result = TDC_DRIVER;
  context->freed_count = context->asked_count = 0;
  return result;
}

tdc_result tdc_progress(tdc_context *context, double seconds) {
  const double deadline = tdc_now() + seconds;
  tdc_result result = tdc_pump(context, 0);
  while (result == TDC_OK && tdc_now() < deadline) {
    const double left = deadline - tdc_now();
    result = tdc_pump(context, left < 0.05 ? left : 0.05);
  }
  return result;
}

/* ---- words */

const char *tdc_result_text(tdc_result result) {
  switch (result) {
  case TDC_OK:
    return "done";
  case TDC_NO_DRIVER:
    return "no GPU driver, or no device";
  case TDC_DRIVER:
    return "the GPU driver failed";
  case TDC_ARGUMENT:
    return "an argument is invalid";
  case TDC_MEMORY:
    return "no host memory, files or sockets left";
  case TDC_PEER_GONE:
    return "the other process ended";
  case TDC_TIMEOUT:
    return "the other process did not answer in time";
  case TDC_PROTOCOL:
    return "the other process sent an invalid message: is it of the same version?";
  case TDC_TOO_SMALL:
    return "the receive buffer is too small";
  }
  return "unknown result";
}

const char *tdc_protocol_name(tdc_protocol protocol) {
  static const char *const names[] = {"auto", "get", "put", "cooperate", "staged"};
  return (unsigned)protocol < sizeof names / sizeof names[0] ? names[protocol] : "unknown";
}
