/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "program.h"

#include <stdlib.h>
#include <string.h>

#include "event.h"
#include "log.h"
#include "memory.h"

static char *take_text(struct tps_cursor *in) {
  size_t length = 0;
  const unsigned char *bytes = tps_take_bytes(in, &length);
  return strndup((const char *)bytes, length);
}

/* The proxy tells what it can of each argument. */
static bool learn_arguments(cl_kernel kernel, struct tps_cursor *in) {
  enum { WORDS = 6 };
  uint64_t count = tps_take(in);
  if (in->bad || count > (uint64_t)(in->end - in->at) / (WORDS * sizeof(uint64_t)))
    return false;
  kernel->arguments = calloc(count == 0 ? 1 : count, sizeof *kernel->arguments);
  if (kernel->arguments == NULL)
    return false;
  kernel->count = (cl_uint)count;
  for (cl_uint i = 0; i < kernel->count; i++) {
    struct tps_argument *argument = &kernel->arguments[i];
    argument->known = tps_take(in) != 0;
    argument->address = (cl_uint)tps_take(in);
    argument->access = (cl_uint)tps_take(in);
    argument->qualifier = tps_take(in);
    argument->type = take_text(in);
    argument->name = take_text(in);
  }
  return !in->bad;
}

cl_kernel tps__clCreateKernel(cl_program program, const char *kernel_name, cl_int *errcode_ret) {
  if (!tps__is(program, TPS_PROGRAM))
    return tps__fail(errcode_ret, CL_INVALID_PROGRAM);
  if (kernel_name == NULL)
    return tps__fail(errcode_ret, CL_INVALID_VALUE);
  cl_kernel kernel = tps__object_new(sizeof *kernel, TPS_KERNEL, program->base.link);
  if (kernel == NULL)
    return tps__fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
  kernel->program = program;
  kernel->name = strdup(kernel_name);
  tps__hold(program);
  atomic_fetch_add(&program->kernels, 1);
  struct tps_reply reply;
  struct tps_text *out = tps__begin(program->base.link, TPS_CALL_CreateKernel, &reply);
  tps_put(out, kernel->base.id);
  tps_put(out, program->base.id);
  tps_put_bytes(out, kernel_name, strlen(kernel_name));
  tps__log(kernel, 0);
  cl_int code = tps__answer(program->base.link, &reply);
  if (code == 0 && !learn_arguments(kernel, &reply.in))
    code = CL_OUT_OF_RESOURCES;
  tps__reply_free(&reply);
  return tps__given(kernel, code, errcode_ret);
}

cl_int tps__clCreateKernelsInProgram(cl_program program, cl_uint num_kernels, cl_kernel *kernels,
                                     cl_uint *num_kernels_ret) {
  if (!tps__is(program, TPS_PROGRAM))
    return CL_INVALID_PROGRAM;
  size_t length = 0;
  cl_int code = tps__clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, 0, NULL, &length);
  char *names = code == 0 ? calloc(1, length + 1) : NULL, *left = NULL;
  if (names == NULL)
    return code == 0                    ? CL_OUT_OF_HOST_MEMORY
           : code == CL_INVALID_PROGRAM ? CL_INVALID_PROGRAM_EXECUTABLE
                                        : code;
  code = tps__clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, length, names, NULL);
  cl_uint count = *names != '\0';
  for (const char *at = names; *at != '\0'; at++)
    count += *at == ';';
  if (code == 0 && kernels != NULL && num_kernels < count)
    code = CL_INVALID_VALUE;
  cl_uint made = 0;
  for (char *name = strtok_r(names, ";", &left); kernels != NULL && name != NULL && code == 0;
       name = strtok_r(NULL, ";", &left)) {
    kernels[made] = tps__clCreateKernel(program, name, &code);
    made += code == 0;
  }
  while (code != 0 && made > 0)
    tps__release(&kernels[--made]->base);
  if (code == 0 && num_kernels_ret != NULL)
    *num_kernels_ret = count;
  free(names);
  return code;
}

/* ---- Arguments */

/* The size of a type of OpenCL C by its name, as char or float4; 0: not one of those. */
static size_t size_of_type(const char *type) {
  static const struct {
    const char *name;
    size_t size;
  } types[] = {{"uchar", 1}, {"char", 1},  {"ushort", 2}, {"short", 2}, {"half", 2},  {"uint", 4},
               {"int", 4},   {"float", 4}, {"ulong", 8},  {"long", 8},  {"double", 8}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    size_t length = strlen(types[i].name);
    if (strncmp(type, types[i].name, length) != 0)
      continue;
    char *end = NULL;
    unsigned long lanes = type[length] == '\0' ? 1 : strtoul(type + length, &end, 10);
    if (end != NULL && *end != '\0')
      continue;
    return types[i].size * (lanes == 3 ? 4 : lanes);
  }
  return 0;
}

static bool is_object_type(const char *type) {
  return strncmp(type, "image", 5) == 0 || strcmp(type, "sampler_t") == 0;
}

/* What is behind `value`: told by the kernel, or, where it does not tell, by the value. */
static enum tps_form form_of(const struct tps_argument *argument, size_t size, const void *value) {
  if (argument->known) {
    if (argument->address == CL_KERNEL_ARG_ADDRESS_LOCAL)
      return TPS_LOCAL;
    return argument->address == CL_KERNEL_ARG_ADDRESS_PRIVATE && !is_object_type(argument->type)
               ? TPS_NUMBER
               : TPS_OBJECT;
  }
  if (value == NULL)
    return size == sizeof(cl_mem) ? TPS_OBJECT : TPS_LOCAL;
  const void *handle = NULL;
  if (size == sizeof handle)
    memcpy(&handle, value, sizeof handle);
  return handle != NULL && tps__is_live_handle(handle) ? TPS_OBJECT : TPS_NUMBER;
}

static cl_int check_object(cl_kernel kernel, const struct tps_argument *argument, size_t size,
                           const struct tps_object *object) {
  if (size != sizeof object)
    return CL_INVALID_ARG_SIZE;
  bool is_sampler = argument->known && strcmp(argument->type, "sampler_t") == 0;
  if (object == NULL)
    return is_sampler ? CL_INVALID_SAMPLER : CL_SUCCESS;
  if (!tps__is_live_handle(object) ||
      (argument->known && is_sampler != (object->kind == TPS_SAMPLER)))
    return is_sampler                                        ? CL_INVALID_SAMPLER
           : argument->known && !tps__is_live_handle(object) ? CL_INVALID_MEM_OBJECT
                                                             : CL_INVALID_ARG_VALUE;
  cl_context context =
      object->kind == TPS_SAMPLER ? ((cl_sampler)object)->context : ((cl_mem)object)->context;
  return context == kernel->program->context ? CL_SUCCESS : CL_INVALID_MEM_OBJECT;
}

cl_int tps__clSetKernelArg(cl_kernel kernel, cl_uint arg_index, size_t arg_size,
                           const void *arg_value) {
  if (!tps__is(kernel, TPS_KERNEL))
    return CL_INVALID_KERNEL;
  if (arg_index >= kernel->count)
    return CL_INVALID_ARG_INDEX;
  struct tps_argument *argument = &kernel->arguments[arg_index];
  enum tps_form form = form_of(argument, arg_size, arg_value);
  const struct tps_object *object = NULL;
  cl_int code = CL_SUCCESS;
  if (form == TPS_LOCAL)
    code = arg_value != NULL ? CL_INVALID_ARG_VALUE
           : arg_size == 0   ? CL_INVALID_ARG_SIZE
                             : CL_SUCCESS;
  if (form == TPS_NUMBER) {
    size_t size = argument->known ? size_of_type(argument->type) : 0;
    code = arg_value == NULL                                  ? CL_INVALID_ARG_VALUE
           : arg_size == 0 || (size != 0 && size != arg_size) ? CL_INVALID_ARG_SIZE
                                                              : CL_SUCCESS;
  }
  if (form == TPS_OBJECT) {
    if (arg_value != NULL && arg_size == sizeof object)
      memcpy(&object, arg_value, sizeof object);
    code = check_object(kernel, argument, arg_size, object);
  }
  if (code != 0)
    return code;
  struct tps_link *link = kernel->base.link;
  struct tps_reply reply;
  struct tps_text *out = tps__begin(link, TPS_CALL_SetKernelArg, tps__is_strict ? &reply : NULL);
  tps_put(out, kernel->base.id);
  tps_put(out, arg_index);
  tps_put(out, form);
  if (form == TPS_OBJECT) {
    tps_put(out, tps__id(object));
    tps_put(out, object != NULL && object->kind == TPS_SAMPLER);
  } else if (form == TPS_LOCAL)
    tps_put(out, arg_size);
  else
    tps_put_bytes(out, arg_value, arg_size);
  tps__log(kernel, arg_index);
  code = tps__done(link, tps__is_strict ? &reply : NULL);
  if (code == 0)
    argument->is_set = true;
  return code;
}

/* ---- What is known of it */

cl_int tps__about_kernel(cl_kernel kernel, cl_uint name, const struct tps_answer *answer) {
  switch (name) {
  case CL_KERNEL_FUNCTION_NAME:
    return tps__give_text(answer, kernel->name);
  case CL_KERNEL_NUM_ARGS:
    return TPS_GIVE(answer, cl_uint, kernel->count);
  case CL_KERNEL_CONTEXT:
    return TPS_GIVE(answer, cl_context, kernel->program->context);
  case CL_KERNEL_PROGRAM:
    return TPS_GIVE(answer, cl_program, kernel->program);
  case CL_KERNEL_ATTRIBUTES:
    return TPS_NOT_HERE;
  default:
    return CL_INVALID_VALUE;
  }
}

cl_int tps__about_work_group(cl_kernel kernel, cl_device_id device, cl_uint name,
                             const struct tps_answer *answer) {
  (void)answer;
  if (device == NULL
          ? kernel->program->device_count != 1
          : !tps__is(device, TPS_DEVICE) || !tps__context_has(kernel->program->context, device))
    return CL_INVALID_DEVICE;
  return name > CL_KERNEL_GLOBAL_WORK_SIZE ? CL_INVALID_VALUE : TPS_NOT_HERE;
}

cl_int tps__about_argument(cl_kernel kernel, cl_uint index, cl_uint name,
                           const struct tps_answer *answer) {
  if (index >= kernel->count)
    return CL_INVALID_ARG_INDEX;
  const struct tps_argument *argument = &kernel->arguments[index];
  if (!argument->known)
    return CL_KERNEL_ARG_INFO_NOT_AVAILABLE;
  switch (name) {
  case CL_KERNEL_ARG_ADDRESS_QUALIFIER:
    return TPS_GIVE(answer, cl_uint, argument->address);
  case CL_KERNEL_ARG_ACCESS_QUALIFIER:
    return TPS_GIVE(answer, cl_uint, argument->access);
  case CL_KERNEL_ARG_TYPE_QUALIFIER:
    return TPS_GIVE(answer, cl_ulong, argument->qualifier);
  case CL_KERNEL_ARG_TYPE_NAME:
    return tps__give_text(answer, argument->type);
  case CL_KERNEL_ARG_NAME:
    return tps__give_text(answer, argument->name);
  default:
    return CL_INVALID_VALUE;
  }
}
