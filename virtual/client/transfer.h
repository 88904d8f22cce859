/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef TOPOSEAT_VIRTUAL_TRANSFER_H
#define TOPOSEAT_VIRTUAL_TRANSFER_H

#include "command.h"

/* One read or write as it was asked for. */
struct tps_transfer {
  struct tps_command command;
  cl_mem memory;
  bool is_read, is_rect, is_map, is_blocking;
  struct tps_layout layout;
  size_t origin[3], region[3];   /* of memory; a plain one: [0] in bytes */
  size_t row_pitch, slice_pitch; /* of memory that is read or written as a region of a buffer */
};

cl_int tps__move_buffer(struct tps_transfer *transfer, size_t offset, size_t size, const void *ptr);
cl_int tps__move_rect(struct tps_transfer *transfer, const size_t *origin,
                      const size_t *host_origin, const size_t *region, size_t row_pitch,
                      size_t slice_pitch, size_t host_row, size_t host_slice, const void *ptr);
cl_int tps__move_image(struct tps_transfer *transfer, const size_t *origin, const size_t *region,
                       size_t row_pitch, size_t slice_pitch, const void *ptr);

#endif
