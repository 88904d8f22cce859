/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Buffers, images, samplers. */
#ifndef TOPOSEAT_VIRTUAL_MEMORY_H
#define TOPOSEAT_VIRTUAL_MEMORY_H

#include "device.h"

struct tps_destructor {
  struct tps_destructor *next;
  void (*call)(cl_mem, void *);
  void *data;
};

struct tps_map {
  struct tps_map *next;
  cl_ulong flags;
  struct tps_layout layout;
  size_t origin[3], region[3];
};

struct _cl_mem {
  struct tps_object base;
  cl_context context;
  cl_uint type;
  cl_ulong flags;
  size_t size;
  char *host; /* of the user, with USE_HOST_PTR */
  cl_mem parent;
  size_t origin; /* in the parent */
  char *shadow;  /* what maps point into */
  struct tps_map *maps;
  struct tps_destructor *destructors;
  cl_image_format format;
  cl_image_desc image;
  size_t element;
};

struct _cl_sampler {
  struct tps_object base;
  cl_context context;
  cl_uint values[3]; /* normalized coordinates, addressing, filter */
};

extern const cl_ulong
    tps__host_access; /* flags that are checked here: a proxy reads what it moves */
cl_int tps__check_memory_flags(cl_ulong flags, const void *host_ptr);
cl_mem tps__memory_new(cl_context context, cl_uint type, cl_ulong flags, void *host_ptr);
void tps__image_extent(cl_mem image, size_t most[3]); /* elements; 1 where it has no such side */

#endif
