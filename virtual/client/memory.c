/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Buffers, sub-buffers, samplers. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

#include "command.h"

enum { ALIGNMENT = 4096 };

static const cl_ulong device_access = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY;
const cl_ulong tps__host_access =
    CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS;
static const cl_ulong host_memory =
    CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR;

static bool is_one_at_most(cl_ulong flags) { return (flags & (flags - 1)) == 0; }

cl_int tps__check_memory_flags(cl_ulong flags, const void *host_ptr) {
  const cl_ulong from_user = CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR;
  if ((flags & ~(device_access | tps__host_access | host_memory)) != 0 ||
      !is_one_at_most(flags & device_access) || !is_one_at_most(flags & tps__host_access) ||
      ((flags & CL_MEM_USE_HOST_PTR) != 0 &&
       (flags & (CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR)) != 0))
    return CL_INVALID_VALUE;
  return ((flags & from_user) != 0) == (host_ptr != NULL) ? CL_SUCCESS : CL_INVALID_HOST_PTR;
}

cl_mem tps__memory_new(cl_context context, cl_uint type, cl_ulong flags, void *host_ptr) {
  cl_mem made = tps__object_new(sizeof *made, TPS_MEM_OBJECT, context->base.link);
  if (made == NULL)
    return NULL;
  made->context = context;
  made->type = type;
  made->flags = (flags & device_access) == 0 ? flags | CL_MEM_READ_WRITE : flags;
  made->host = (flags & CL_MEM_USE_HOST_PTR) != 0 ? host_ptr : NULL;
  tps__hold(context);
  return made;
}

static bool is_too_big(cl_context context, size_t size) {
  for (cl_uint i = 0; i < context->device_count; i++)
    if (size <= tps__device_number(context->devices[i], CL_DEVICE_MAX_MEM_ALLOC_SIZE))
      return false;
  return true;
}

cl_mem tps__clCreateBuffer(cl_context context, cl_ulong flags, size_t size, void *host_ptr,
                           cl_int *errcode_ret) {
  if (!tps__is(context, TPS_CONTEXT))
    return tps__fail(errcode_ret, CL_INVALID_CONTEXT);
  cl_int code = tps__check_memory_flags(flags, host_ptr);
  if (code == 0 && (size == 0 || is_too_big(context, size)))
    code = CL_INVALID_BUFFER_SIZE;
  cl_mem buffer =
      code == 0 ? tps__memory_new(context, CL_MEM_OBJECT_BUFFER, flags, host_ptr) : NULL;
  if (buffer == NULL)
    return tps__fail(errcode_ret, code == 0 ? CL_OUT_OF_HOST_MEMORY : code);
  buffer->size = size;
  struct tps_link *link = context->base.link;
  uint64_t upload = 0;
  if (host_ptr != NULL) {
    struct tps_layout all = {host_ptr, size, 1, 1, size, size};
    upload = tps__upload(link, &all);
  }
  cl_ulong sent = buffer->flags & ~(tps__host_access | CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR);
  struct tps_reply reply;
  struct tps_text *out = tps__begin(link, TPS_CALL_CreateBuffer, tps__is_strict ? &reply : NULL);
  tps_put(out, buffer->base.id);
  tps__put_CreateBuffer(out, context, sent | (host_ptr != NULL ? CL_MEM_COPY_HOST_PTR : 0), size,
                        upload);
  link->uploads -= upload != 0;
  return tps__made(buffer, tps__is_strict ? &reply : NULL, errcode_ret);
}

/* What a sub-buffer has of its parent where it is told nothing else. */
static cl_ulong inherit(cl_ulong flags, cl_ulong parent) {
  if ((flags & device_access) == 0)
    flags |= parent & device_access;
  if ((flags & tps__host_access) == 0)
    flags |= parent & tps__host_access;
  return flags | (parent & host_memory);
}

static cl_int check_sub_flags(cl_ulong flags, cl_ulong parent) {
  const cl_ulong write = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY,
                 read = CL_MEM_READ_WRITE | CL_MEM_READ_ONLY;
  if ((flags & ~(device_access | tps__host_access)) != 0 ||
      !is_one_at_most(flags & device_access) || !is_one_at_most(flags & tps__host_access))
    return CL_INVALID_VALUE;
  bool widens = ((parent & CL_MEM_WRITE_ONLY) != 0 && (flags & read) != 0) ||
                ((parent & CL_MEM_READ_ONLY) != 0 && (flags & write) != 0) ||
                ((parent & CL_MEM_HOST_WRITE_ONLY) != 0 && (flags & CL_MEM_HOST_READ_ONLY) != 0) ||
                ((parent & CL_MEM_HOST_READ_ONLY) != 0 && (flags & CL_MEM_HOST_WRITE_ONLY) != 0) ||
                ((parent & CL_MEM_HOST_NO_ACCESS) != 0 &&
                 (flags & (CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY)) != 0);
  return widens ? CL_INVALID_VALUE : CL_SUCCESS;
}

cl_mem tps__clCreateSubBuffer(cl_mem buffer, cl_ulong flags, cl_uint buffer_create_type,
                              const void *buffer_create_info, cl_int *errcode_ret) {
  if (!tps__is(buffer, TPS_MEM_OBJECT) || buffer->parent != NULL ||
      buffer->type != CL_MEM_OBJECT_BUFFER)
    return tps__fail(errcode_ret, CL_INVALID_MEM_OBJECT);
  cl_int code = check_sub_flags(flags, buffer->flags);
  if (code != 0 || buffer_create_type != CL_BUFFER_CREATE_TYPE_REGION || buffer_create_info == NULL)
    return tps__fail(errcode_ret, CL_INVALID_VALUE);
  size_t region[2]; /* origin, size */
  memcpy(region, buffer_create_info, sizeof region);
  if (region[1] == 0)
    return tps__fail(errcode_ret, CL_INVALID_BUFFER_SIZE);
  if (tps__check_range(buffer, region[0], region[1]) != 0)
    return tps__fail(errcode_ret, CL_INVALID_VALUE);
  cl_mem made =
      tps__memory_new(buffer->context, CL_MEM_OBJECT_BUFFER, inherit(flags, buffer->flags),
                      buffer->host == NULL ? NULL : buffer->host + region[0]);
  if (made == NULL)
    return tps__fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
  made->parent = buffer;
  made->origin = region[0];
  made->size = region[1];
  tps__hold(buffer);
  struct tps_reply reply;
  struct tps_text *out = tps__begin(buffer->base.link, TPS_CALL_CreateSubBuffer, &reply);
  tps_put(out, made->base.id);
  tps__put_CreateSubBuffer(out, buffer, flags & ~tps__host_access, buffer_create_type, region);
  return tps__made(made, &reply, errcode_ret);
}

static cl_uint map_count(cl_mem memobj) {
  cl_uint count = 0;
  pthread_mutex_lock(&memobj->base.link->state);
  for (struct tps_map *map = memobj->maps; map != NULL; map = map->next)
    count++;
  pthread_mutex_unlock(&memobj->base.link->state);
  return count;
}

cl_int tps__about_mem_object(cl_mem memobj, cl_uint name, const struct tps_answer *answer) {
  switch (name) {
  case CL_MEM_TYPE:
    return TPS_GIVE(answer, cl_uint, memobj->type);
  case CL_MEM_FLAGS:
    return TPS_GIVE(answer, cl_ulong, memobj->flags);
  case CL_MEM_SIZE:
    return TPS_GIVE(answer, size_t, memobj->size);
  case CL_MEM_HOST_PTR:
    return TPS_GIVE(answer, void *, memobj->host);
  case CL_MEM_MAP_COUNT:
    return TPS_GIVE(answer, cl_uint, map_count(memobj));
  case CL_MEM_CONTEXT:
    return TPS_GIVE(answer, cl_context, memobj->context);
  case CL_MEM_ASSOCIATED_MEMOBJECT:
    return TPS_GIVE(answer, cl_mem, memobj->parent);
  case CL_MEM_OFFSET:
    return TPS_GIVE(answer, size_t, memobj->type == CL_MEM_OBJECT_BUFFER ? memobj->origin : 0);
  default:
    return TPS_NOT_HERE;
  }
}

cl_int tps__clSetMemObjectDestructorCallback(cl_mem memobj, void (*pfn_notify)(cl_mem, void *),
                                             void *user_data) {
  if (!tps__is(memobj, TPS_MEM_OBJECT))
    return CL_INVALID_MEM_OBJECT;
  struct tps_destructor *made = pfn_notify == NULL ? NULL : malloc(sizeof *made);
  if (made == NULL)
    return pfn_notify == NULL ? CL_INVALID_VALUE : CL_OUT_OF_HOST_MEMORY;
  pthread_mutex_lock(&memobj->base.link->state);
  *made = (struct tps_destructor){memobj->destructors, pfn_notify, user_data};
  memobj->destructors = made; /* the last one is called first */
  pthread_mutex_unlock(&memobj->base.link->state);
  return CL_SUCCESS;
}

/* ---- Samplers */

cl_sampler tps__clCreateSampler(cl_context context, cl_uint normalized_coords,
                                cl_uint addressing_mode, cl_uint filter_mode, cl_int *errcode_ret) {
  if (!tps__is(context, TPS_CONTEXT))
    return tps__fail(errcode_ret, CL_INVALID_CONTEXT);
  cl_sampler made = tps__object_new(sizeof *made, TPS_SAMPLER, context->base.link);
  if (made == NULL)
    return tps__fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
  made->context = context;
  memcpy(made->values, (cl_uint[]){normalized_coords, addressing_mode, filter_mode},
         sizeof made->values);
  tps__hold(context);
  struct tps_reply reply;
  struct tps_text *out = tps__begin(context->base.link, TPS_CALL_CreateSampler, &reply);
  tps_put(out, made->base.id);
  tps__put_CreateSampler(out, context, normalized_coords, addressing_mode, filter_mode);
  return tps__made(made, &reply, errcode_ret);
}

cl_int tps__about_sampler(cl_sampler sampler, cl_uint name, const struct tps_answer *answer) {
  switch (name) {
  case CL_SAMPLER_CONTEXT:
    return TPS_GIVE(answer, cl_context, sampler->context);
  case CL_SAMPLER_NORMALIZED_COORDS:
  case CL_SAMPLER_ADDRESSING_MODE:
  case CL_SAMPLER_FILTER_MODE:
    return TPS_GIVE(answer, cl_uint, sampler->values[name - CL_SAMPLER_NORMALIZED_COORDS]);
  default:
    return TPS_NOT_HERE;
  }
}
