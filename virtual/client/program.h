/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Programs and their kernels. */
#ifndef TOPOSEAT_VIRTUAL_PROGRAM_H
#define TOPOSEAT_VIRTUAL_PROGRAM_H

#include "device.h"

struct _cl_program {
  struct tps_object base;
  cl_context context;
  cl_uint device_count;
  cl_device_id *devices;
  char *source, *options;
  atomic_int kernels, built;   /* `built`: the code of the last build */
  struct _cl_program **inputs; /* headers, or what it was linked from: held for a move */
  cl_uint input_count;
};

struct tps_argument {
  cl_uint address, access;
  cl_ulong qualifier;
  char *type, *name;
  bool known, is_set;
};

struct _cl_kernel {
  struct tps_object base;
  cl_program program;
  char *name;
  cl_uint count;
  struct tps_argument *arguments;
};

#endif
