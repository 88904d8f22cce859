/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "program.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "event.h"
#include "log.h"

static cl_program program_new(cl_context context) {
  cl_program program = tps__object_new(sizeof *program, TPS_PROGRAM, context->base.link);
  if (program == NULL)
    return NULL;
  program->context = context;
  tps__hold(context);
  return program;
}

/* The program is for these devices, all of the context where `list` is NULL. */
static bool set_devices(cl_program program, cl_uint count, const cl_device_id *list) {
  cl_context context = program->context;
  if (list == NULL) {
    list = context->devices;
    count = context->device_count;
  }
  program->devices = malloc(count * sizeof *list);
  if (program->devices == NULL)
    return false;
  memcpy(program->devices, list, count * sizeof *list);
  program->device_count = count;
  for (cl_uint i = 0; i < count; i++)
    tps__hold(list[i]);
  return true;
}

static cl_int check_devices(cl_context context, cl_uint count, const cl_device_id *list) {
  if ((count == 0) != (list == NULL))
    return CL_INVALID_VALUE;
  for (cl_uint i = 0; i < count; i++)
    if (!tps__is(list[i], TPS_DEVICE) || !tps__context_has(context, list[i]))
      return CL_INVALID_DEVICE;
  return CL_SUCCESS;
}

static char *joined(cl_uint count, const char **strings, const size_t *lengths) {
  size_t total = 0;
  for (cl_uint i = 0; i < count; i++) {
    if (strings[i] == NULL)
      return NULL;
    total += lengths != NULL && lengths[i] != 0 ? lengths[i] : strlen(strings[i]);
  }
  char *all = malloc(total + 1), *at = all;
  for (cl_uint i = 0; i < count && all != NULL; i++) {
    size_t length = lengths != NULL && lengths[i] != 0 ? lengths[i] : strlen(strings[i]);
    memcpy(at, strings[i], length);
    at += length;
  }
  if (all != NULL)
    *at = '\0';
  return all;
}

cl_program tps__clCreateProgramWithSource(cl_context context, cl_uint count, const char **strings,
                                          const size_t *lengths, cl_int *errcode_ret) {
  if (!tps__is(context, TPS_CONTEXT))
    return tps__fail(errcode_ret, CL_INVALID_CONTEXT);
  char *source = count == 0 || strings == NULL ? NULL : joined(count, strings, lengths);
  if (source == NULL)
    return tps__fail(errcode_ret, CL_INVALID_VALUE);
  cl_program program = program_new(context);
  if (program == NULL || !set_devices(program, 0, NULL)) {
    free(source);
    return tps__fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
  }
  program->source = source;
  struct tps_reply reply;
  struct tps_text *out = tps__begin(context->base.link, TPS_CALL_CreateProgramWithSource,
                                    tps__is_strict ? &reply : NULL);
  tps_put(out, program->base.id);
  tps_put(out, context->base.id);
  tps_put_bytes(out, source, strlen(source));
  return tps__made(program, tps__is_strict ? &reply : NULL, errcode_ret);
}

cl_program tps__clCreateProgramWithBinary(cl_context context, cl_uint num_devices,
                                          const cl_device_id *devices, const size_t *lengths,
                                          const unsigned char **binaries, cl_int *binary_status,
                                          cl_int *errcode_ret) {
  if (!tps__is(context, TPS_CONTEXT))
    return tps__fail(errcode_ret, CL_INVALID_CONTEXT);
  cl_int code = num_devices == 0 || devices == NULL || lengths == NULL || binaries == NULL
                    ? CL_INVALID_VALUE
                    : check_devices(context, num_devices, devices);
  for (cl_uint i = 0; i < num_devices && code == 0; i++)
    if (lengths[i] == 0 || binaries[i] == NULL) {
      code = CL_INVALID_VALUE;
      if (binary_status != NULL)
        binary_status[i] = CL_INVALID_VALUE;
    }
  cl_program program = code == 0 ? program_new(context) : NULL;
  if (program == NULL || !set_devices(program, num_devices, devices))
    return tps__fail(errcode_ret, code == 0 ? CL_OUT_OF_HOST_MEMORY : code);
  struct tps_reply reply;
  struct tps_text *out = tps__begin(context->base.link, TPS_CALL_CreateProgramWithBinary, &reply);
  tps_put(out, program->base.id);
  tps_put(out, context->base.id);
  tps__put_list(out, num_devices, (const void *const *)devices);
  for (cl_uint i = 0; i < num_devices; i++)
    tps_put_bytes(out, binaries[i], lengths[i]);
  tps__log(program, 0);
  code = tps__answer(context->base.link, &reply);
  for (cl_uint i = 0; i < num_devices && binary_status != NULL && !reply.in.bad; i++)
    binary_status[i] = (cl_int)tps_take(&reply.in);
  tps__reply_free(&reply);
  return tps__given(program, code, errcode_ret);
}

cl_program tps__clCreateProgramWithBuiltInKernels(cl_context context, cl_uint num_devices,
                                                  const cl_device_id *devices,
                                                  const char *kernel_names, cl_int *errcode_ret) {
  if (!tps__is(context, TPS_CONTEXT))
    return tps__fail(errcode_ret, CL_INVALID_CONTEXT);
  if (kernel_names == NULL || num_devices == 0 || devices == NULL)
    return tps__fail(errcode_ret, CL_INVALID_VALUE);
  cl_int code = check_devices(context, num_devices, devices);
  return tps__fail(errcode_ret, code == 0 ? CL_INVALID_VALUE : code); /* the devices list none */
}

/* ---- Build, compile, link: with a callback on its thread, and the call returns at once. */

struct build {
  cl_program program;
  struct tps_text words; /* the message */
  uint32_t call;
  void (*notify)(cl_program, void *);
  void *data;
};

/* The compiler runs in another folder, on a node that may share this one's files: what is relative
   after -I is told from the root. */
static void put_options(struct tps_text *out, const char *options) {
  struct tps_text all = {0};
  char here[PATH_MAX] = "";
  if (getcwd(here, sizeof here) == NULL)
    here[0] = '\0';
  for (const char *at = options; *at != '\0'; at++) {
    bool begins = at == options || at[-1] == ' ';
    if (!begins || at[0] != '-' || at[1] != 'I') {
      *(char *)tps_room(&all, 1) = *at;
      continue;
    }
    size_t length = 2 + strspn(at + 2, " ");
    length += at[length] == '"';
    memcpy(tps_room(&all, length), at, length);
    if (at[length] != '/' && at[length] != '\0' && here[0] != '\0') {
      size_t more = strlen(here);
      memcpy(tps_room(&all, more), here, more);
      *(char *)tps_room(&all, 1) = '/';
    }
    at += length - 1;
  }
  tps_put_bytes(out, all.data, all.length);
  free(all.data);
}

static void tell_of_includes(cl_program program) {
  size_t length = 0;
  for (cl_uint i = 0; i < program->device_count; i++) {
    if (tps__clGetProgramBuildInfo(program, program->devices[i], CL_PROGRAM_BUILD_LOG, 0, NULL,
                                   &length) != 0)
      continue;
    char *log = calloc(1, length + 1);
    if (log != NULL &&
        tps__clGetProgramBuildInfo(program, program->devices[i], CL_PROGRAM_BUILD_LOG, length, log,
                                   NULL) == 0 &&
        strstr(log, "file not found") != NULL)
      fprintf(stderr,
              "toposeat: error: a file that a kernel includes is not on %s\n"
              "hint: keep it on a file system that both nodes share, and name its folder by -I\n",
              program->base.link->host);
    free(log);
  }
}

static cl_int build_now(struct build *build) {
  struct tps_link *link = build->program->base.link;
  struct tps_reply reply;
  struct tps_text *out = tps__begin(link, build->call, &reply);
  memcpy(tps_room(out, build->words.length), build->words.data, build->words.length);
  tps__log(build->program, 0);
  cl_int code = tps__done(link, &reply);
  atomic_store(&build->program->built, code);
  free(build->words.data);
  tps__forget(&build->program->base);
  if (code == CL_BUILD_PROGRAM_FAILURE || code == CL_COMPILE_PROGRAM_FAILURE)
    tell_of_includes(build->program);
  return code;
}

static void build_later(void *argument) {
  struct build *build = argument;
  (void)build_now(build);
  build->notify(build->program, build->data);
  tps__drop(build->program);
  free(build);
}

static cl_int start(struct build *build) {
  struct build *later = build->notify == NULL ? NULL : malloc(sizeof *later);
  if (later == NULL)
    return build_now(build);
  *later = *build;
  tps__hold(build->program);
  tps__run_later(build_later, later);
  return CL_SUCCESS;
}

static cl_int check_build(cl_program program, cl_uint count, const cl_device_id *list,
                          const void *notify, const void *data) {
  if (!tps__is(program, TPS_PROGRAM))
    return CL_INVALID_PROGRAM;
  cl_int code = check_devices(program->context, count, list);
  if (code == 0 && notify == NULL && data != NULL)
    code = CL_INVALID_VALUE;
  return code == 0 && atomic_load(&program->kernels) > 0 ? CL_INVALID_OPERATION : code;
}

/* What it was made from may be released by the application, but a move makes it again. */
static void set_inputs(cl_program program, cl_uint count, const cl_program *inputs) {
  cl_program *copy = count == 0 ? NULL : malloc(count * sizeof *copy);
  for (cl_uint i = 0; i < count && copy != NULL; i++) {
    copy[i] = inputs[i];
    tps__hold(inputs[i]);
  }
  for (cl_uint i = 0; i < program->input_count; i++)
    tps__drop(program->inputs[i]);
  free(program->inputs);
  program->inputs = copy;
  program->input_count = copy == NULL ? 0 : count;
}

static void set_options(cl_program program, const char *options) {
  free(program->options);
  program->options = strdup(options == NULL ? "" : options);
}

cl_int tps__clBuildProgram(cl_program program, cl_uint num_devices, const cl_device_id *devices,
                           const char *options, void (*pfn_notify)(cl_program, void *),
                           void *user_data) {
  cl_int code = check_build(program, num_devices, devices, (void *)(intptr_t)pfn_notify, user_data);
  if (code != 0)
    return code;
  set_options(program, options);
  struct build build = {
      .program = program, .call = TPS_CALL_BuildProgram, .notify = pfn_notify, .data = user_data};
  tps_put(&build.words, program->base.id);
  tps__put_list(&build.words, num_devices, (const void *const *)devices);
  put_options(&build.words, program->options);
  return start(&build);
}

cl_int tps__clCompileProgram(cl_program program, cl_uint num_devices, const cl_device_id *devices,
                             const char *options, cl_uint num_input_headers,
                             const cl_program *input_headers, const char **header_include_names,
                             void (*pfn_notify)(cl_program, void *), void *user_data) {
  cl_int code = check_build(program, num_devices, devices, (void *)(intptr_t)pfn_notify, user_data);
  if (code == 0 && program->source == NULL)
    code = CL_INVALID_OPERATION;
  bool has_headers = num_input_headers > 0;
  if (code == 0 &&
      (has_headers != (input_headers != NULL) || has_headers != (header_include_names != NULL)))
    code = CL_INVALID_VALUE;
  for (cl_uint i = 0; i < num_input_headers && code == 0; i++)
    code = tps__is(input_headers[i], TPS_PROGRAM) ? CL_SUCCESS : CL_INVALID_PROGRAM;
  if (code != 0)
    return code;
  set_options(program, options);
  struct build build = {
      .program = program, .call = TPS_CALL_CompileProgram, .notify = pfn_notify, .data = user_data};
  tps_put(&build.words, program->base.id);
  tps__put_list(&build.words, num_devices, (const void *const *)devices);
  put_options(&build.words, program->options);
  tps__put_list(&build.words, num_input_headers, (const void *const *)input_headers);
  for (cl_uint i = 0; i < num_input_headers; i++)
    tps_put_bytes(&build.words, header_include_names[i], strlen(header_include_names[i]));
  set_inputs(program, num_input_headers, input_headers);
  return start(&build);
}

cl_program tps__clLinkProgram(cl_context context, cl_uint num_devices, const cl_device_id *devices,
                              const char *options, cl_uint num_input_programs,
                              const cl_program *input_programs,
                              void (*pfn_notify)(cl_program, void *), void *user_data,
                              cl_int *errcode_ret) {
  if (!tps__is(context, TPS_CONTEXT))
    return tps__fail(errcode_ret, CL_INVALID_CONTEXT);
  cl_int code = check_devices(context, num_devices, devices);
  if (code == 0 && (num_input_programs == 0 || input_programs == NULL ||
                    (pfn_notify == NULL && user_data != NULL)))
    code = CL_INVALID_VALUE;
  for (cl_uint i = 0; i < num_input_programs && code == 0; i++)
    code = tps__is(input_programs[i], TPS_PROGRAM) ? CL_SUCCESS : CL_INVALID_PROGRAM;
  cl_program program = code == 0 ? program_new(context) : NULL;
  if (program == NULL || !set_devices(program, num_devices, devices))
    return tps__fail(errcode_ret, code == 0 ? CL_OUT_OF_HOST_MEMORY : code);
  set_options(program, options);
  struct build build = {
      .program = program, .call = TPS_CALL_LinkProgram, .notify = pfn_notify, .data = user_data};
  tps_put(&build.words, program->base.id);
  tps_put(&build.words, context->base.id);
  tps__put_list(&build.words, num_devices, (const void *const *)devices);
  put_options(&build.words, program->options);
  tps__put_list(&build.words, num_input_programs, (const void *const *)input_programs);
  set_inputs(program, num_input_programs, input_programs);
  code = start(&build);
  tps__fail(errcode_ret, code);
  /* A program that could not be linked has its log, where the proxy made one. */
  if (code == 0 || code == CL_LINK_PROGRAM_FAILURE)
    return program;
  tps__release(&program->base);
  return NULL;
}

/* ---- What is known of it */

/* An array of places, one a device, each with room for what CL_PROGRAM_BINARY_SIZES says. */
static cl_int give_binaries(cl_program program, const struct tps_answer *answer) {
  size_t size = program->device_count * sizeof(unsigned char *);
  if (answer->size_ret != NULL)
    *answer->size_ret = size;
  if (answer->value == NULL)
    return CL_SUCCESS;
  if (answer->size < size)
    return CL_INVALID_VALUE;
  size_t room[MOST_DEVICES] = {0}; /* as it was told before */
  cl_int code = tps__clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof room, room, NULL);
  if (code != 0 || program->device_count > MOST_DEVICES)
    return code != 0 ? code : CL_OUT_OF_HOST_MEMORY;
  unsigned char **places = answer->value;
  struct tps_reply reply;
  struct tps_text *out = tps__begin(program->base.link, TPS_CALL_GetProgramInfo, &reply);
  tps_put(out, program->base.id);
  tps_put(out, 0);
  tps_put(out, CL_PROGRAM_BINARIES);
  code = tps__answer(program->base.link, &reply);
  for (cl_uint i = 0; i < program->device_count && code == 0; i++) {
    size_t length = 0;
    const unsigned char *bytes = tps_take_bytes(&reply.in, &length);
    if (reply.in.bad || length > room[i])
      code = CL_OUT_OF_RESOURCES;
    else if (places[i] != NULL)
      memcpy(places[i], bytes, length);
  }
  tps__reply_free(&reply);
  return code;
}

cl_int tps__about_program(cl_program program, cl_uint name, const struct tps_answer *answer) {
  switch (name) {
  case CL_PROGRAM_CONTEXT:
    return TPS_GIVE(answer, cl_context, program->context);
  case CL_PROGRAM_NUM_DEVICES:
    return TPS_GIVE(answer, cl_uint, program->device_count);
  case CL_PROGRAM_DEVICES:
    return tps__give(answer, program->devices, program->device_count * sizeof(cl_device_id));
  case CL_PROGRAM_SOURCE:
    return tps__give_text(answer, program->source == NULL ? "" : program->source);
  case CL_PROGRAM_BINARIES:
    return give_binaries(program, answer);
  case CL_PROGRAM_BINARY_SIZES:
  case CL_PROGRAM_NUM_KERNELS:
  case CL_PROGRAM_KERNEL_NAMES:
    return TPS_NOT_HERE;
  default:
    return CL_INVALID_VALUE;
  }
}

cl_int tps__about_build(cl_program program, cl_device_id device, cl_uint name,
                        const struct tps_answer *answer) {
  if (!tps__is(device, TPS_DEVICE) || !tps__context_has(program->context, device))
    return CL_INVALID_DEVICE;
  if (name == CL_PROGRAM_BUILD_OPTIONS)
    return tps__give_text(answer, program->options == NULL ? "" : program->options);
  return name > CL_PROGRAM_BINARY_TYPE ? CL_INVALID_VALUE : TPS_NOT_HERE;
}
