/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reads, writes and maps. What a write sends goes ahead of it as uploads; a read is told where its
   bytes go by its event. Large ones of buffers are cut, so that the device copies one piece while
   the next is on its way; the event of the last piece ends when all have. */
#include "transfer.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"

enum { PAGE = 4096 };

/* Rows that follow each other are one row. */
static struct tps_layout layout_of(void *base, const size_t region[3], size_t element,
                                   size_t row_pitch, size_t slice_pitch) {
  struct tps_layout layout = {base,      region[0] * element, region[1],
                              region[2], row_pitch,           slice_pitch};
  if (layout.row_pitch == 0)
    layout.row_pitch = layout.row;
  if (layout.slice_pitch == 0)
    layout.slice_pitch = layout.row_pitch * layout.rows;
  bool is_dense = (layout.row_pitch == layout.row || layout.rows == 1) &&
                  (layout.slices == 1 || layout.slice_pitch == layout.row * layout.rows);
  if (is_dense) {
    size_t all = layout.row * layout.rows * layout.slices;
    layout = (struct tps_layout){base, all, 1, 1, all, all};
  }
  return layout;
}

static void put_call(struct tps_text *out, const struct tps_transfer *transfer, size_t offset,
                     size_t size, uint64_t upload) {
  cl_command_queue queue = transfer->command.queue;
  cl_mem memory = transfer->memory;
  switch (transfer->command.call) {
  case TPS_CALL_EnqueueReadBuffer:
    tps__put_EnqueueReadBuffer(out, queue, memory, transfer->origin[0] + offset, size);
    break;
  case TPS_CALL_EnqueueWriteBuffer:
    tps__put_EnqueueWriteBuffer(out, queue, memory, transfer->origin[0] + offset, size, upload);
    break;
  case TPS_CALL_EnqueueReadBufferRect:
    tps__put_EnqueueReadBufferRect(out, queue, memory, transfer->origin, transfer->region,
                                   transfer->row_pitch, transfer->slice_pitch);
    break;
  case TPS_CALL_EnqueueWriteBufferRect:
    tps__put_EnqueueWriteBufferRect(out, queue, memory, transfer->origin, transfer->region,
                                    transfer->row_pitch, transfer->slice_pitch, upload);
    break;
  case TPS_CALL_EnqueueReadImage:
    tps__put_EnqueueReadImage(out, queue, memory, transfer->origin, transfer->region);
    break;
  default:
    tps__put_EnqueueWriteImage(out, queue, memory, transfer->origin, transfer->region, upload);
  }
}

/* One piece; if it has an event, that is a part of `whole` or `whole` itself. */
static cl_int send_piece(const struct tps_transfer *transfer, struct tps_command *command,
                         size_t offset, size_t size, struct _cl_event *whole) {
  struct tps_link *link = command->queue->base.link;
  struct tps_layout layout = transfer->layout;
  cl_int code = CL_SUCCESS;
  if (!transfer->is_rect) {
    layout.base += offset;
    layout.row = layout.row_pitch = layout.slice_pitch = size;
  }
  uint64_t upload = transfer->is_read ? 0 : tps__upload(link, &layout);
  struct tps_text *out = tps__command_begin(command, &code);
  if (out == NULL)
    tps__lock(link);
  link->uploads -= upload != 0;
  if (out == NULL) {
    pthread_mutex_unlock(&link->sending);
    return code;
  }
  if (command->made != NULL) {
    pthread_mutex_lock(&link->state);
    command->made->layout = layout;
    command->made->expected = transfer->is_read ? layout.row * layout.rows * layout.slices : 0;
    if (command->made != whole) {
      command->made->whole = whole;
      whole->parts++;
    }
    pthread_mutex_unlock(&link->state);
    if (transfer->is_map) {
      command->made->memory = transfer->memory;
      tps__hold(transfer->memory);
    }
  }
  put_call(out, transfer, offset, size, upload);
  return tps__command_end(command);
}

static bool any_order(const struct tps_transfer *transfer) {
  return (transfer->command.queue->properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0;
}

static void give_up(struct _cl_event *whole, cl_int code) {
  static const cl_ulong never[4] = {0};
  pthread_mutex_lock(&whole->base.link->state);
  tps__event_end(whole, code, never);
  pthread_mutex_unlock(&whole->base.link->state);
}

/* Where the device may run commands in any order, each piece waits for what the whole waits for, and
   a marker ends it, since later commands may wait for it. */
static cl_int end_pieces(const struct tps_command *asked, struct _cl_event *whole, cl_uint count,
                         const cl_event *pieces) {
  struct tps_command end = {.type = asked->type,
                            .queue = asked->queue,
                            .waits = count,
                            .list = pieces,
                            .event = asked->event,
                            .made = whole};
  return tps__command_mark(&end);
}

static cl_int send_all(struct tps_transfer *transfer, struct _cl_event *whole) {
  const struct tps_command *asked = &transfer->command;
  const struct tps_layout *layout = &transfer->layout;
  size_t total = layout->row * layout->rows * layout->slices;
  size_t length = transfer->is_rect || total < TPS_CHUNK ? total : TPS_CHUNK;
  bool is_loose = any_order(transfer), is_marked = is_loose && asked->event && length < total;
  cl_uint count = 0;
  cl_event *pieces = is_marked ? calloc(total / length + 1, sizeof(cl_event)) : NULL;
  cl_int code = is_marked && pieces == NULL ? CL_OUT_OF_HOST_MEMORY : CL_SUCCESS;
  for (size_t offset = 0; offset < total && code == 0; offset += length) {
    bool is_last = total - offset <= length;
    struct tps_command piece = {.call = asked->call, .type = asked->type, .queue = asked->queue};
    if (offset == 0 || is_loose) {
      piece.waits = asked->waits;
      piece.list = asked->list;
    }
    piece.is_kept = is_marked;
    if (is_last && !is_marked) {
      piece.made = whole;
      piece.event = asked->event;
    } else {
      piece.wants_event = whole != NULL;
    }
    code = send_piece(transfer, &piece, offset, is_last ? total - offset : length, whole);
    if (is_marked && piece.made != NULL)
      pieces[count++] = piece.made;
    else if (piece.made != NULL && piece.made != whole)
      tps__release(&piece.made->base);
    if (code != 0 && whole != NULL && piece.made != whole)
      give_up(whole, code);
  }
  if (is_marked && code == 0)
    code = end_pieces(asked, whole, count, pieces);
  while (count > 0)
    tps__release(&pieces[--count]->base);
  free(pieces);
  return code;
}

static cl_int run(struct tps_transfer *transfer) {
  const struct tps_command *asked = &transfer->command;
  struct _cl_event *whole = NULL;
  if (transfer->is_read || asked->event != NULL) {
    whole = tps__event_new(asked->queue->context, asked->queue, asked->type);
    if (whole == NULL)
      return CL_OUT_OF_HOST_MEMORY;
  }
  cl_int code = send_all(transfer, whole);
  if (code == 0 && whole != NULL && transfer->is_blocking) {
    (void)tps__event_wait(whole);
    cl_int status = atomic_load(&whole->status);
    code = status > 0 ? CL_OUT_OF_RESOURCES : status;
  }
  if (whole != NULL && asked->event == NULL)
    tps__release(&whole->base);
  return code != 0 ? code : transfer->is_blocking ? tps__queue_error(asked->queue) : CL_SUCCESS;
}

/* What every transfer of the application is refused for; a map by its flags: see check_map. */
static cl_int check(struct tps_transfer *transfer, cl_uint type, const void *ptr) {
  const cl_ulong refused =
      CL_MEM_HOST_NO_ACCESS | (transfer->is_read ? CL_MEM_HOST_WRITE_ONLY : CL_MEM_HOST_READ_ONLY);
  cl_int code = tps__command_check(&transfer->command);
  if (code == 0)
    code = tps__same_context(transfer->command.queue, transfer->memory, TPS_MEM_OBJECT,
                             CL_INVALID_MEM_OBJECT);
  if (code != 0)
    return code;
  if ((type == CL_MEM_OBJECT_BUFFER) != (transfer->memory->type == CL_MEM_OBJECT_BUFFER))
    return CL_INVALID_MEM_OBJECT;
  if (ptr == NULL)
    return CL_INVALID_VALUE;
  bool is_refused = !transfer->is_map && (transfer->memory->flags & refused) != 0;
  return is_refused ? CL_INVALID_OPERATION : CL_SUCCESS;
}

#define COMMAND(name, kind)                                                                        \
  {.call = TPS_CALL_Enqueue##name,                                                                 \
   .type = CL_COMMAND_##kind,                                                                      \
   .queue = queue,                                                                                 \
   .waits = num_events_in_wait_list,                                                               \
   .list = event_wait_list,                                                                        \
   .event = event}

/* ---- Buffers */

cl_int tps__move_buffer(struct tps_transfer *transfer, size_t offset, size_t size,
                        const void *ptr) {
  cl_int code = check(transfer, CL_MEM_OBJECT_BUFFER, ptr);
  if (code == 0)
    code = tps__check_range(transfer->memory, offset, size);
  if (code != 0)
    return code;
  transfer->origin[0] = offset;
  transfer->layout = layout_of((void *)ptr, (size_t[]){size, 1, 1}, 1, 0, 0);
  return run(transfer);
}

cl_int tps__move_rect(struct tps_transfer *transfer, const size_t *origin,
                      const size_t *host_origin, const size_t *region, size_t row_pitch,
                      size_t slice_pitch, size_t host_row, size_t host_slice, const void *ptr) {
  transfer->row_pitch = row_pitch;
  transfer->slice_pitch = slice_pitch;
  cl_int code = check(transfer, CL_MEM_OBJECT_BUFFER, ptr);
  if (code == 0)
    code = tps__check_rect(transfer->memory, origin, region, row_pitch, slice_pitch);
  if (code == 0 && (host_origin == NULL || (host_row != 0 && host_row < region[0])))
    code = CL_INVALID_VALUE;
  if (code != 0)
    return code;
  size_t row = host_row == 0 ? region[0] : host_row,
         slice = host_slice == 0 ? row * region[1] : host_slice;
  if (slice < row * region[1] || (host_slice != 0 && slice % row != 0))
    return CL_INVALID_VALUE;
  char *base = (char *)ptr + host_origin[2] * slice + host_origin[1] * row + host_origin[0];
  transfer->is_rect = true;
  transfer->layout = layout_of(base, region, 1, row, slice);
  memcpy(transfer->origin, origin, sizeof transfer->origin);
  memcpy(transfer->region, region, sizeof transfer->region);
  return run(transfer);
}

/* ---- Images */

static cl_int check_region(cl_mem image, const size_t *origin, const size_t *region) {
  if (origin == NULL || region == NULL)
    return CL_INVALID_VALUE;
  size_t most[3];
  tps__image_extent(image, most);
  for (int i = 0; i < 3; i++)
    if (region[i] == 0 || region[i] > most[i] || origin[i] > most[i] - region[i])
      return CL_INVALID_VALUE;
  return CL_SUCCESS;
}

cl_int tps__move_image(struct tps_transfer *transfer, const size_t *origin, const size_t *region,
                       size_t row_pitch, size_t slice_pitch, const void *ptr) {
  cl_mem image = transfer->memory;
  cl_int code = check(transfer, CL_MEM_OBJECT_IMAGE2D, ptr);
  if (code == 0)
    code = check_region(image, origin, region);
  if (code != 0)
    return code;
  size_t row = region[0] * image->element, rows = region[1];
  row_pitch = row_pitch == 0 ? row : row_pitch;
  if (row_pitch < row || (slice_pitch != 0 && region[2] > 1 && slice_pitch < row_pitch * rows))
    return CL_INVALID_VALUE;
  bool is_row_an_element = image->type == CL_MEM_OBJECT_IMAGE1D_ARRAY;
  transfer->is_rect = true;
  transfer->layout =
      layout_of((void *)ptr, region, image->element,
                is_row_an_element && slice_pitch != 0 ? slice_pitch : row_pitch, slice_pitch);
  memcpy(transfer->origin, origin, sizeof transfer->origin);
  memcpy(transfer->region, region, sizeof transfer->region);
  return run(transfer);
}

/* ---- Maps: memory of our own, or the application's where it gave some. */

static char *mapped_memory(cl_mem memory) {
  cl_mem owner =
      memory->parent != NULL && memory->type == CL_MEM_OBJECT_BUFFER ? memory->parent : memory;
  if (memory->host != NULL)
    return memory->host;
  pthread_mutex_lock(&owner->base.link->state);
  if (owner->shadow == NULL) {
    size_t size = (owner->size + PAGE - 1) / PAGE * PAGE;
    owner->shadow = aligned_alloc(PAGE, size);
  }
  char *shadow = owner->shadow;
  pthread_mutex_unlock(&owner->base.link->state);
  return shadow == NULL || owner == memory ? shadow : shadow + memory->origin;
}

static void keep_map(cl_mem memory, struct tps_map *map) {
  pthread_mutex_lock(&memory->base.link->state);
  map->next = memory->maps;
  memory->maps = map;
  pthread_mutex_unlock(&memory->base.link->state);
}

static struct tps_map *take_map(cl_mem memory, const void *pointer) {
  pthread_mutex_lock(&memory->base.link->state);
  struct tps_map **at = &memory->maps;
  while (*at != NULL && (*at)->layout.base != pointer)
    at = &(*at)->next;
  struct tps_map *map = *at;
  if (map != NULL)
    *at = map->next;
  pthread_mutex_unlock(&memory->base.link->state);
  return map;
}

/* Nothing travels, but what was enqueued before ends first. */
static cl_int mark(struct tps_command *command, bool is_blocking) {
  command->wants_event = is_blocking;
  cl_int code = tps__command_mark(command);
  if (code == 0 && is_blocking)
    code = tps__event_wait(command->made);
  if (code == 0 && is_blocking)
    code = tps__queue_error(command->queue);
  if (is_blocking && command->event == NULL)
    tps__release(&command->made->base);
  return code;
}

/* `map` has its layout, origin and region. */
static void *start_map(struct tps_transfer *transfer, const struct tps_map *map,
                       cl_int *errcode_ret) {
  struct tps_map *kept = malloc(sizeof *kept);
  if (kept == NULL)
    return tps__fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
  *kept = *map;
  transfer->is_read = transfer->is_map = true;
  transfer->layout = map->layout;
  memcpy(transfer->origin, map->origin, sizeof map->origin);
  memcpy(transfer->region, map->region, sizeof map->region);
  keep_map(transfer->memory, kept);
  cl_int code = (map->flags & CL_MAP_WRITE_INVALIDATE_REGION) != 0
                    ? mark(&transfer->command, transfer->is_blocking)
                    : run(transfer);
  tps__fail(errcode_ret, code);
  if (code == 0)
    return map->layout.base;
  free(take_map(transfer->memory, map->layout.base));
  return NULL;
}

static cl_int check_map(struct tps_transfer *transfer, cl_uint type, cl_ulong flags) {
  const cl_ulong write = CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION;
  cl_mem memory = transfer->memory;
  transfer->is_map = true;
  cl_int code = check(transfer, type, transfer);
  if (code != 0)
    return code;
  if ((flags & ~(write | CL_MAP_READ)) != 0 || ((flags & CL_MAP_WRITE_INVALIDATE_REGION) != 0 &&
                                                (flags & (CL_MAP_READ | CL_MAP_WRITE)) != 0))
    return CL_INVALID_VALUE;
  if (((flags & CL_MAP_READ) != 0 &&
       (memory->flags & (CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS)) != 0) ||
      ((flags & write) != 0 &&
       (memory->flags & (CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS)) != 0))
    return CL_INVALID_OPERATION;
  return CL_SUCCESS;
}

void *tps__clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_uint blocking,
                              cl_ulong map_flags, size_t offset, size_t size,
                              cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                              cl_event *event, cl_int *errcode_ret) {
  struct tps_transfer transfer = {
      .command = COMMAND(ReadBuffer, MAP_BUFFER), .memory = buffer, .is_blocking = blocking != 0};
  cl_int code = check_map(&transfer, CL_MEM_OBJECT_BUFFER, map_flags);
  if (code == 0)
    code = tps__check_range(buffer, offset, size);
  char *base = code == 0 ? mapped_memory(buffer) : NULL;
  if (base == NULL)
    return tps__fail(errcode_ret, code == 0 ? CL_MAP_FAILURE : code);
  struct tps_map map = {.flags = map_flags,
                        .origin = {offset},
                        .region = {size, 1, 1},
                        .layout = layout_of(base + offset, (size_t[]){size, 1, 1}, 1, 0, 0)};
  return start_map(&transfer, &map, errcode_ret);
}

void *tps__clEnqueueMapImage(cl_command_queue queue, cl_mem image, cl_uint blocking,
                             cl_ulong map_flags, const size_t *origin, const size_t *region,
                             size_t *row_pitch, size_t *slice_pitch,
                             cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                             cl_event *event, cl_int *errcode_ret) {
  struct tps_transfer transfer = {.command = COMMAND(ReadImage, MAP_IMAGE),
                                  .memory = image,
                                  .is_rect = true,
                                  .is_blocking = blocking != 0};
  cl_int code = check_map(&transfer, CL_MEM_OBJECT_IMAGE2D, map_flags);
  if (code == 0)
    code = check_region(image, origin, region);
  size_t most[3];
  bool has_slices = code == 0 && image->type != CL_MEM_OBJECT_IMAGE1D &&
                    image->type != CL_MEM_OBJECT_IMAGE2D &&
                    image->type != CL_MEM_OBJECT_IMAGE1D_BUFFER;
  if (code == 0 && (row_pitch == NULL || (has_slices && slice_pitch == NULL)))
    code = CL_INVALID_VALUE;
  char *base = code == 0 ? mapped_memory(image) : NULL;
  if (base == NULL)
    return tps__fail(errcode_ret, code == 0 ? CL_MAP_FAILURE : code);
  tps__image_extent(image, most);
  bool is_users = image->host != NULL;
  size_t row = is_users && image->image.image_row_pitch != 0 ? image->image.image_row_pitch
                                                             : most[0] * image->element;
  size_t slice = is_users && image->image.image_slice_pitch != 0 ? image->image.image_slice_pitch
                                                                 : row * most[1];
  if (image->type == CL_MEM_OBJECT_IMAGE1D_ARRAY) { /* its second index counts slices */
    slice = is_users && image->image.image_slice_pitch != 0 ? image->image.image_slice_pitch : row;
    base += origin[1] * slice + origin[0] * image->element;
  } else {
    base += origin[2] * slice + origin[1] * row + origin[0] * image->element;
  }
  *row_pitch = row;
  if (slice_pitch != NULL)
    *slice_pitch = has_slices ? slice : 0;
  struct tps_map map = {.flags = map_flags};
  map.layout = layout_of(base, region, image->element,
                         image->type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? slice : row,
                         image->type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? 0 : slice);
  memcpy(map.origin, origin, sizeof map.origin);
  memcpy(map.region, region, sizeof map.region);
  return start_map(&transfer, &map, errcode_ret);
}

cl_int tps__clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem memobj, void *mapped_ptr,
                                    cl_uint num_events_in_wait_list,
                                    const cl_event *event_wait_list, cl_event *event) {
  const cl_ulong write = CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION;
  struct tps_transfer transfer = {.command = COMMAND(WriteBuffer, UNMAP_MEM_OBJECT),
                                  .memory = memobj};
  cl_int code = tps__command_check(&transfer.command);
  if (code == 0)
    code = tps__same_context(queue, memobj, TPS_MEM_OBJECT, CL_INVALID_MEM_OBJECT);
  struct tps_map *map = code == 0 ? take_map(memobj, mapped_ptr) : NULL;
  if (map == NULL)
    return code == 0 ? CL_INVALID_VALUE : code;
  if ((map->flags & write) == 0) {
    code = mark(&transfer.command, false);
  } else {
    transfer.is_rect = memobj->type != CL_MEM_OBJECT_BUFFER;
    if (transfer.is_rect)
      transfer.command.call = TPS_CALL_EnqueueWriteImage;
    transfer.layout = map->layout;
    memcpy(transfer.origin, map->origin, sizeof map->origin);
    memcpy(transfer.region, map->region, sizeof map->region);
    code = run(&transfer);
  }
  free(map);
  return code;
}
