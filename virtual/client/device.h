/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The platform, its devices, and the contexts that have some of them. */
#ifndef TOPOSEAT_VIRTUAL_DEVICE_H
#define TOPOSEAT_VIRTUAL_DEVICE_H

#include "object.h"

enum { MOST_DEVICES = 256 };

struct _cl_platform_id {
  struct tps_object base;
};

struct _cl_device_id {
  struct tps_object base;
  unsigned index;            /* in the proxy's list */
  cl_device_id parent, next; /* next of the proxy's */
  uint64_t held;             /* bytes, by other clients, when it was connected */
};

struct _cl_context {
  struct tps_object base;
  cl_uint device_count;
  cl_device_id *devices;
  size_t property_bytes;
  intptr_t *properties;
};

extern struct _cl_platform_id tps__platform;
bool tps__learn_devices(struct tps_link *link);     /* once, before anything else is asked */
void tps__keep_device(cl_device_id device);         /* the process has it, if not too many */
cl_uint tps__known_devices(cl_device_id **devices); /* so far, connecting to nothing */
/* A fact of the device as a number, 0 where it has none. */
cl_ulong tps__device_number(cl_device_id device, cl_uint name);
bool tps__context_has(cl_context context, cl_device_id device);

#endif
