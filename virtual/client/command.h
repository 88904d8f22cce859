/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Queues, and what is enqueued. */
#ifndef TOPOSEAT_VIRTUAL_COMMAND_H
#define TOPOSEAT_VIRTUAL_COMMAND_H

#include "event.h"

struct _cl_command_queue {
  struct tps_object base;
  cl_context context;
  cl_device_id device;
  cl_ulong properties;
  atomic_int error;      /* of a command that was refused, until the program has heard of it */
  uint64_t refused;      /* that command's event; 0: it has none, or there are several commands */
  cl_command_queue next; /* of those of the link */
  atomic_ullong sent;    /* commands so far; sending is locked */
  atomic_ullong ended;   /* 1 + what of `sent` and `sets` is known to be over, 0: nothing */
};

struct tps_command {
  uint32_t call;
  cl_uint type;
  cl_command_queue queue;
  cl_uint waits;
  const cl_event *list;
  cl_event *event;  /* of the application, may be NULL */
  bool wants_event; /* of the library, in `made` */
  bool is_kept;     /* later commands wait for it */
  struct _cl_event *made;
  struct tps_reply reply;
};

cl_int tps__command_check(struct tps_command *command);
/* The message, to be ended by tps__command_end; NULL: `code` says why. */
struct tps_text *tps__command_begin(struct tps_command *command, cl_int *code);
cl_int tps__command_end(struct tps_command *command);
cl_int tps__command_mark(struct tps_command *command); /* a marker, with the command's event */
cl_int tps__same_context(cl_command_queue queue, const void *object, uint32_t kind, cl_int invalid);
/* What was refused since it was asked last. */
cl_int tps__queue_error(cl_command_queue queue);

cl_int tps__check_range(cl_mem buffer, size_t offset, size_t size);
cl_int tps__check_copy(cl_mem from, size_t from_offset, cl_mem into, size_t into_offset,
                       size_t size);
cl_int tps__check_rect(cl_mem buffer, const size_t *origin, const size_t *region, size_t row_pitch,
                       size_t slice_pitch);
cl_int tps__check_copy_rect(cl_mem from, cl_mem into, const size_t *from_origin,
                            const size_t *into_origin, const size_t *region, size_t from_row,
                            size_t from_slice, size_t into_row, size_t into_slice);
cl_int tps__check_fill(cl_mem buffer, const void *pattern, size_t pattern_size, size_t offset,
                       size_t size);
cl_int tps__check_migration(cl_uint count, const cl_mem *objects, cl_ulong flags);
cl_int tps__check_launch(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                         const size_t *offset, const size_t *global, const size_t *local);
cl_int tps__check_arguments(cl_kernel kernel);

#endif
