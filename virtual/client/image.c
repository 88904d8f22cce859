/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

static size_t side(size_t told) { return told == 0 ? 1 : told; }

void tps__image_extent(cl_mem image, size_t most[3]) {
  const cl_image_desc *told = &image->image;
  most[0] = told->image_width;
  most[1] = image->type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? told->image_array_size
                                                       : side(told->image_height);
  most[2] = image->type == CL_MEM_OBJECT_IMAGE2D_ARRAY ? told->image_array_size
            : image->type == CL_MEM_OBJECT_IMAGE3D     ? told->image_depth
                                                       : 1;
  if (image->type == CL_MEM_OBJECT_IMAGE1D || image->type == CL_MEM_OBJECT_IMAGE1D_BUFFER)
    most[1] = 1;
}

/* 0: not a format of OpenCL 1.2. */
static size_t element_of(const cl_image_format *format) {
  static const size_t of_type[] = {1, 2, 1, 2, 0, 0, 0, 1, 2, 4, 1, 2, 4, 2, 4};
  size_t channels = 1;
  if (format->image_channel_data_type == CL_UNORM_SHORT_565 ||
      format->image_channel_data_type == CL_UNORM_SHORT_555)
    return 2;
  if (format->image_channel_data_type == CL_UNORM_INT_101010)
    return 4;
  if (format->image_channel_order == CL_RG || format->image_channel_order == CL_RA ||
      format->image_channel_order == CL_RGx)
    channels = 2;
  if (format->image_channel_order == CL_RGBA || format->image_channel_order == CL_BGRA ||
      format->image_channel_order == CL_ARGB)
    channels = 4;
  size_t type = format->image_channel_data_type - CL_SNORM_INT8;
  return type < sizeof of_type / sizeof *of_type ? channels * of_type[type] : 0;
}

/* The rows and slices of what the application gave, or gets by a map. */
static struct tps_layout given(cl_mem image, const size_t most[3], void *host_ptr) {
  const cl_image_desc *told = &image->image;
  size_t one = most[0] * image->element,
         row = told->image_row_pitch == 0 ? one : told->image_row_pitch;
  if (image->type == CL_MEM_OBJECT_IMAGE1D_ARRAY && told->image_slice_pitch != 0)
    row = told->image_slice_pitch;
  size_t slice = image->type == CL_MEM_OBJECT_IMAGE1D_ARRAY || told->image_slice_pitch == 0
                     ? row * most[1]
                     : told->image_slice_pitch;
  return (struct tps_layout){host_ptr, one, most[1], most[2], row, slice};
}

static cl_int check_image(cl_context context, cl_ulong flags, const cl_image_format *format,
                          const cl_image_desc *told, const void *host_ptr) {
  if (!tps__is(context, TPS_CONTEXT))
    return CL_INVALID_CONTEXT;
  if (format == NULL || element_of(format) == 0)
    return CL_INVALID_IMAGE_FORMAT_DESCRIPTOR;
  if (told == NULL || told->image_type <= CL_MEM_OBJECT_BUFFER ||
      told->image_type > CL_MEM_OBJECT_IMAGE1D_BUFFER || told->image_width == 0 ||
      told->num_mip_levels != 0 || told->num_samples != 0)
    return CL_INVALID_IMAGE_DESCRIPTOR;
  bool has_buffer = told->image_type == CL_MEM_OBJECT_IMAGE1D_BUFFER;
  if (has_buffer != (told->buffer != NULL) ||
      (has_buffer && !tps__is(told->buffer, TPS_MEM_OBJECT)))
    return CL_INVALID_IMAGE_DESCRIPTOR;
  if (host_ptr == NULL && (told->image_row_pitch != 0 || told->image_slice_pitch != 0) &&
      !has_buffer)
    return CL_INVALID_IMAGE_DESCRIPTOR;
  return tps__check_memory_flags(flags, host_ptr);
}

cl_mem tps__clCreateImage(cl_context context, cl_ulong flags, const cl_image_format *image_format,
                          const cl_image_desc *image_desc, void *host_ptr, cl_int *errcode_ret) {
  cl_int code = check_image(context, flags, image_format, image_desc, host_ptr);
  cl_mem image =
      code == 0 ? tps__memory_new(context, image_desc->image_type, flags, host_ptr) : NULL;
  if (image == NULL)
    return tps__fail(errcode_ret, code == 0 ? CL_OUT_OF_HOST_MEMORY : code);
  size_t most[3];
  image->format = *image_format;
  image->image = *image_desc;
  image->element = element_of(image_format);
  image->parent = image_desc->buffer;
  tps__hold(image->parent);
  tps__image_extent(image, most);
  image->size = image->element * most[0] * most[1] * most[2];
  struct tps_link *link = context->base.link;
  uint64_t upload = 0;
  if (host_ptr != NULL) {
    struct tps_layout layout = given(image, most, host_ptr);
    if (layout.row_pitch < layout.row) {
      tps__release(&image->base);
      return tps__fail(errcode_ret, CL_INVALID_IMAGE_DESCRIPTOR);
    }
    upload = tps__upload(link, &layout);
  }
  struct tps_reply reply;
  struct tps_text *out = tps__begin(link, TPS_CALL_CreateImage, &reply);
  const cl_ulong from_user = tps__host_access | CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR;
  const cl_ulong words[] = {image->base.id,
                            context->base.id,
                            (flags & ~from_user) | (host_ptr != NULL ? CL_MEM_COPY_HOST_PTR : 0),
                            image_format->image_channel_order,
                            image_format->image_channel_data_type,
                            image_desc->image_type,
                            image_desc->image_width,
                            image_desc->image_height,
                            image_desc->image_depth,
                            image_desc->image_array_size,
                            tps__id(image_desc->buffer),
                            upload,
                            image->size};
  memcpy(tps_room(out, sizeof words), words, sizeof words);
  link->uploads -= upload != 0;
  return tps__made(image, &reply, errcode_ret);
}

cl_mem tps__clCreateImage2D(cl_context context, cl_ulong flags, const cl_image_format *image_format,
                            size_t width, size_t height, size_t row_pitch, void *host_ptr,
                            cl_int *errcode_ret) {
  cl_image_desc told = {.image_type = CL_MEM_OBJECT_IMAGE2D,
                        .image_width = width,
                        .image_height = height,
                        .image_row_pitch = row_pitch};
  return tps__clCreateImage(context, flags, image_format, &told, host_ptr, errcode_ret);
}

cl_mem tps__clCreateImage3D(cl_context context, cl_ulong flags, const cl_image_format *image_format,
                            size_t width, size_t height, size_t depth, size_t row_pitch,
                            size_t slice_pitch, void *host_ptr, cl_int *errcode_ret) {
  cl_image_desc told = {.image_type = CL_MEM_OBJECT_IMAGE3D,
                        .image_width = width,
                        .image_height = height,
                        .image_depth = depth,
                        .image_row_pitch = row_pitch,
                        .image_slice_pitch = slice_pitch};
  return tps__clCreateImage(context, flags, image_format, &told, host_ptr, errcode_ret);
}

cl_int tps__clGetSupportedImageFormats(cl_context context, cl_ulong flags, cl_uint image_type,
                                       cl_uint num_entries, cl_image_format *image_formats,
                                       cl_uint *num_image_formats) {
  if (!tps__is(context, TPS_CONTEXT))
    return CL_INVALID_CONTEXT;
  if (image_formats != NULL && num_entries == 0)
    return CL_INVALID_VALUE;
  struct tps_reply reply;
  struct tps_text *out = tps__begin(context->base.link, TPS_CALL_GetSupportedImageFormats, &reply);
  tps_put(out, context->base.id);
  tps_put(out, flags);
  tps_put(out, image_type);
  cl_int code = tps__answer(context->base.link, &reply);
  size_t length = 0;
  const unsigned char *bytes = code == 0 ? tps_take_bytes(&reply.in, &length) : NULL;
  size_t count = length / sizeof(cl_image_format);
  if (code == 0 && num_image_formats != NULL)
    *num_image_formats = (cl_uint)count;
  if (code == 0 && image_formats != NULL && count > 0)
    memcpy(image_formats, bytes,
           (count < num_entries ? count : num_entries) * sizeof *image_formats);
  tps__reply_free(&reply);
  return code;
}

cl_int tps__about_image(cl_mem image, cl_uint name, const struct tps_answer *answer) {
  if (image->type == CL_MEM_OBJECT_BUFFER)
    return CL_INVALID_MEM_OBJECT;
  const cl_image_desc *told = &image->image;
  size_t most[3];
  tps__image_extent(image, most);
  struct tps_layout layout = given(image, most, NULL);
  bool has_slices = image->type == CL_MEM_OBJECT_IMAGE3D ||
                    image->type == CL_MEM_OBJECT_IMAGE2D_ARRAY ||
                    image->type == CL_MEM_OBJECT_IMAGE1D_ARRAY;
  bool is_array =
      image->type == CL_MEM_OBJECT_IMAGE1D_ARRAY || image->type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
  bool has_height = most[1] > 1 || image->type == CL_MEM_OBJECT_IMAGE2D ||
                    image->type == CL_MEM_OBJECT_IMAGE3D ||
                    image->type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
  switch (name) {
  case CL_IMAGE_FORMAT:
    return tps__give(answer, &image->format, sizeof image->format);
  case CL_IMAGE_ELEMENT_SIZE:
    return TPS_GIVE(answer, size_t, image->element);
  case CL_IMAGE_ROW_PITCH:
    return TPS_GIVE(answer, size_t, layout.row_pitch);
  case CL_IMAGE_SLICE_PITCH:
    return TPS_GIVE(answer, size_t,
                    !has_slices                                  ? 0
                    : image->type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? layout.row_pitch
                                                                 : layout.slice_pitch);
  case CL_IMAGE_WIDTH:
    return TPS_GIVE(answer, size_t, told->image_width);
  case CL_IMAGE_HEIGHT:
    return TPS_GIVE(answer, size_t,
                    has_height && image->type != CL_MEM_OBJECT_IMAGE1D_ARRAY ? told->image_height
                                                                             : 0);
  case CL_IMAGE_DEPTH:
    return TPS_GIVE(answer, size_t, image->type == CL_MEM_OBJECT_IMAGE3D ? told->image_depth : 0);
  case CL_IMAGE_ARRAY_SIZE:
    return TPS_GIVE(answer, size_t, is_array ? told->image_array_size : 0);
  case CL_IMAGE_BUFFER:
    return TPS_GIVE(answer, cl_mem, image->parent);
  case CL_IMAGE_NUM_MIP_LEVELS:
  case CL_IMAGE_NUM_SAMPLES:
    return TPS_GIVE(answer, cl_uint, 0);
  default:
    return CL_INVALID_VALUE;
  }
}
