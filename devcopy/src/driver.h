/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The GPU driver, loaded at run time: CUDA's, or HIP's where its calls have the same form. */
#ifndef TOPOSEAT_DEVCOPY_DRIVER_H
#define TOPOSEAT_DEVCOPY_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  char bytes[64];
} tdc_handle;

/* Codes that decide what happens next; both drivers use the first two, HIP's differ in others. */
enum {
  TDC_DRIVER_NOT_READY = 600,
  TDC_DRIVER_ALREADY_MAPPED = 208,
};

/* CUmemAccessDesc and hipMemAccessDesc. */
struct tdc_access {
  int type, device, flags;
};

struct tdc_driver {
  bool is_hip;
  bool has_virtual; /* all of the last group are there */
  int (*init)(unsigned flags);
  int (*device_count)(int *count);
  int (*can_access_peer)(int *can, int device, int peer);
  int (*pci_bus_id)(char *text, int length, int device);
  int (*device_by_pci)(int *device, const char *text);
  int (*retain_primary)(void **context, int device);
  int (*release_primary)(int device);
  int (*set_current)(void *context);
  int (*enable_peer)(void *context, unsigned flags);
  int (*allocate)(uint64_t *pointer, size_t bytes);
  int (*free)(uint64_t pointer);
  int (*address_range)(uint64_t *base, size_t *size, uint64_t pointer);
  int (*pointer_attribute)(void *data, int which, uint64_t pointer);
  int (*ipc_get)(tdc_handle *handle, uint64_t pointer);
  int (*ipc_open)(uint64_t *pointer, tdc_handle handle, unsigned flags);
  int (*ipc_close)(uint64_t pointer);
  int (*stream_create)(void **stream, unsigned flags);
  int (*stream_destroy)(void *stream);
  int (*stream_synchronize)(void *stream);
  int (*stream_query)(void *stream);
  int (*event_create)(void **event, unsigned flags);
  int (*event_destroy)(void *event);
  int (*event_record)(void *event, void *stream);
  int (*event_query)(void *event);
  int (*copy)(uint64_t to, uint64_t from, size_t bytes, void *stream); /* device to device */
  int (*copy_in)(uint64_t to, const void *from, size_t bytes, void *stream);
  int (*copy_out)(void *to, uint64_t from, size_t bytes, void *stream);
  int (*register_host)(void *pointer, size_t bytes, unsigned flags);
  int (*unregister_host)(void *pointer);
  /* virtual memory management */
  int (*retain_handle)(uint64_t *handle, void *pointer);
  int (*export_handle)(void *shareable, uint64_t handle, int type, unsigned long long flags);
  int (*import_handle)(uint64_t *handle, void *shareable, int type);
  int (*release_handle)(uint64_t handle);
  int (*reserve)(uint64_t *pointer, size_t size, size_t align, uint64_t at,
                 unsigned long long flags);
  int (*free_addresses)(uint64_t pointer, size_t size);
  int (*map)(uint64_t pointer, size_t size, size_t offset, uint64_t handle,
             unsigned long long flags);
  int (*unmap)(uint64_t pointer, size_t size);
  int (*set_access)(uint64_t pointer, size_t size, const struct tdc_access *access, size_t count);
};

/* The driver of this process, loaded once; NULL if there is none with a device. */
const struct tdc_driver *tdc_load_driver(void);

#endif
