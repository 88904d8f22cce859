/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the process borrowed: its platform, and contexts over its devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "receive.h"
#include "report.h"

static pthread_once_t found = PTHREAD_ONCE_INIT;

/* One word of TOPOSEAT_CL_DEVICES: ENDPOINT#INDEX. */
static void add_device(char *word) {
  char *hash = strrchr(word, '#');
  char *end = NULL;
  unsigned long index = hash == NULL ? 0 : strtoul(hash + 1, &end, 10);
  if (hash == NULL || end == hash + 1 || *end != '\0') {
    fprintf(stderr,
            "toposeat: error: TOPOSEAT_CL_DEVICES has a word that is no ENDPOINT#INDEX: %s\n"
            "hint: start the program with `toposeat borrow`\n",
            word);
    return;
  }
  *hash = '\0';
  struct tps_link *link = tps__link(word, &tps__hearing);
  bool is_new = link != NULL && link->host == NULL;
  if (link == NULL || (is_new && !tps__learn_devices(link)))
    return;
  if (is_new)
    tps__measure(link);
  cl_device_id device = link->devices;
  while (device != NULL && device->index != index)
    device = device->next;
  if (device == NULL)
    fprintf(stderr,
            "toposeat: error: %s has no device %lu\n"
            "hint: lend and borrow again: the node's devices have changed\n",
            word, index);
  else
    tps__keep_device(device);
}

static void find_devices(void) {
  const char *told = getenv("TOPOSEAT_CL_DEVICES"), *strict = getenv("TOPOSEAT_CL_STRICT");
  tps__is_strict = strict != NULL && strcmp(strict, "0") != 0 && *strict != '\0';
  char *copy = told == NULL ? NULL : strdup(told), *left = NULL;
  if (copy == NULL)
    return;
  for (char *word = strtok_r(copy, " ", &left); word != NULL; word = strtok_r(NULL, " ", &left))
    add_device(word);
  free(copy);
  tps__report();
}

static cl_uint find(cl_device_id **list) {
  pthread_once(&found, find_devices);
  return tps__known_devices(list);
}

/* ---- Platform */

cl_int tps__clGetPlatformIDs(cl_uint num_entries, cl_platform_id *platforms,
                             cl_uint *num_platforms) {
  cl_device_id *list = NULL;
  if ((platforms == NULL && num_platforms == NULL) || (platforms != NULL && num_entries == 0))
    return CL_INVALID_VALUE;
  cl_uint count = find(&list) > 0;
  if (num_platforms != NULL)
    *num_platforms = count;
  if (platforms != NULL && count > 0)
    platforms[0] = &tps__platform;
  return count > 0 ? CL_SUCCESS : CL_PLATFORM_NOT_FOUND_KHR;
}

/* Whose devices it stands for: the first one's, which programs take. */
static cl_int give_name(const struct tps_answer *answer) {
  char text[256] = "toposeat: ";
  size_t begin = strlen(text);
  cl_device_id *list = NULL;
  struct tps_answer of_device = {sizeof text - begin, text + begin, NULL};
  if (find(&list) == 0 ||
      tps__ask(&list[0]->base, TPS_CALL_GetDeviceInfo, NULL, CL_PLATFORM_NAME, &of_device) != 0)
    return tps__give_text(answer, "toposeat");
  return tps__give_text(answer, text);
}

cl_int tps__clGetPlatformInfo(cl_platform_id platform, cl_uint param_name, size_t param_value_size,
                              void *param_value, size_t *param_value_size_ret) {
  struct tps_answer answer = {param_value_size, param_value, param_value_size_ret};
  if (platform != NULL && !tps__is(platform, TPS_PLATFORM))
    return CL_INVALID_PLATFORM;
  switch (param_name) {
  case CL_PLATFORM_PROFILE:
    return tps__give_text(&answer, "FULL_PROFILE");
  case CL_PLATFORM_VERSION:
    return tps__give_text(&answer, "OpenCL 1.2 toposeat " TOPOSEAT_VERSION);
  case CL_PLATFORM_NAME:
    return give_name(&answer);
  case CL_PLATFORM_VENDOR:
    return tps__give_text(&answer, "toposeat");
  case CL_PLATFORM_EXTENSIONS:
    return tps__give_text(&answer, "cl_khr_icd");
  case CL_PLATFORM_ICD_SUFFIX_KHR:
    return tps__give_text(&answer, "TOPOSEAT");
  default:
    return CL_INVALID_VALUE;
  }
}

static bool is_of_type(cl_device_id device, bool is_first, cl_ulong wanted) {
  if (wanted == CL_DEVICE_TYPE_ALL || (is_first && (wanted & CL_DEVICE_TYPE_DEFAULT) != 0))
    return true;
  return (tps__device_number(device, CL_DEVICE_TYPE) & wanted &
          ~(cl_ulong)CL_DEVICE_TYPE_DEFAULT) != 0;
}

cl_int tps__clGetDeviceIDs(cl_platform_id platform, cl_ulong device_type, cl_uint num_entries,
                           cl_device_id *list, cl_uint *num_devices) {
  enum { TYPES = 31 };
  cl_device_id *all = NULL;
  cl_uint count = 0;
  if (platform != NULL && !tps__is(platform, TPS_PLATFORM))
    return CL_INVALID_PLATFORM;
  if (device_type != CL_DEVICE_TYPE_ALL &&
      (device_type == 0 || (device_type & ~(cl_ulong)TYPES) != 0))
    return CL_INVALID_DEVICE_TYPE;
  if ((list == NULL && num_devices == NULL) || (list != NULL && num_entries == 0))
    return CL_INVALID_VALUE;
  cl_uint known = find(&all);
  for (cl_uint i = 0; i < known; i++)
    if (is_of_type(all[i], i == 0, device_type)) {
      if (list != NULL && count < num_entries)
        list[count] = all[i];
      count++;
    }
  if (num_devices != NULL)
    *num_devices = count;
  return count > 0 ? CL_SUCCESS : CL_DEVICE_NOT_FOUND;
}

/* ---- Contexts */

static cl_int check_properties(const intptr_t *properties, size_t *bytes) {
  size_t count = 0;
  bool has_platform = false;
  for (; properties != NULL && properties[count] != 0; count += 2) {
    if (properties[count] == CL_CONTEXT_PLATFORM) {
      if (has_platform || !tps__is((void *)properties[count + 1], TPS_PLATFORM))
        return has_platform ? CL_INVALID_PROPERTY : CL_INVALID_PLATFORM;
      has_platform = true;
    } else if (properties[count] != CL_CONTEXT_INTEROP_USER_SYNC) {
      return CL_INVALID_PROPERTY;
    }
  }
  *bytes = properties == NULL ? 0 : (count + 1) * sizeof *properties;
  return CL_SUCCESS;
}

static cl_int check_devices(cl_uint count, const cl_device_id *list) {
  if (list == NULL || count == 0)
    return CL_INVALID_VALUE;
  for (cl_uint i = 0; i < count; i++) {
    if (!tps__is(list[i], TPS_DEVICE))
      return CL_INVALID_DEVICE;
    if (list[i]->base.link != list[0]->base.link) {
      fprintf(stderr,
              "toposeat: error: one context over devices of two proxies: %s and %s\n"
              "hint: make a context for each device\n",
              list[0]->base.link->host, list[i]->base.link->host);
      return CL_INVALID_DEVICE;
    }
  }
  return atomic_load(&list[0]->base.link->is_dead) ? CL_DEVICE_NOT_AVAILABLE : CL_SUCCESS;
}

static void *copy_of(const void *bytes, size_t length) {
  void *copy = length > 0 ? malloc(length) : NULL;
  if (copy != NULL)
    memcpy(copy, bytes, length);
  return copy;
}

cl_context tps__clCreateContext(const intptr_t *properties, cl_uint num_devices,
                                const cl_device_id *list,
                                void (*pfn_notify)(const char *, const void *, size_t, void *),
                                void *user_data, cl_int *errcode_ret) {
  size_t bytes = 0;
  cl_int code = check_properties(properties, &bytes);
  if (code == 0)
    code = pfn_notify == NULL && user_data != NULL ? CL_INVALID_VALUE
                                                   : check_devices(num_devices, list);
  cl_context context =
      code == 0 ? tps__object_new(sizeof *context, TPS_CONTEXT, list[0]->base.link) : NULL;
  if (context == NULL)
    return tps__fail(errcode_ret, code == 0 ? CL_OUT_OF_HOST_MEMORY : code);
  context->property_bytes = bytes;
  context->properties = copy_of(properties, bytes);
  context->device_count = num_devices;
  context->devices = copy_of(list, num_devices * sizeof *list);
  struct tps_reply reply;
  struct tps_text *out = tps__begin(context->base.link, TPS_CALL_CreateContext, &reply);
  tps_put(out, context->base.id);
  tps__put_list(out, num_devices, (const void *const *)list);
  for (cl_uint i = 0; i < num_devices; i++)
    tps__hold(list[i]);
  return tps__made(context, &reply, errcode_ret);
}

cl_context tps__clCreateContextFromType(const intptr_t *properties, cl_ulong device_type,
                                        void (*pfn_notify)(const char *, const void *, size_t,
                                                           void *),
                                        void *user_data, cl_int *errcode_ret) {
  cl_device_id list[MOST_DEVICES];
  cl_uint count = 0;
  cl_int code = tps__clGetDeviceIDs(&tps__platform, device_type, MOST_DEVICES, list, &count);
  if (code != 0)
    return tps__fail(errcode_ret, code);
  /* Those of one node: the first's. */
  cl_uint near = 0;
  for (cl_uint i = 0; i < count; i++)
    if (list[i]->base.link == list[0]->base.link)
      list[near++] = list[i];
  return tps__clCreateContext(properties, near, list, pfn_notify, user_data, errcode_ret);
}

cl_int tps__about_context(cl_context context, cl_uint name, const struct tps_answer *answer) {
  switch (name) {
  case CL_CONTEXT_NUM_DEVICES:
    return TPS_GIVE(answer, cl_uint, context->device_count);
  case CL_CONTEXT_DEVICES:
    return tps__give(answer, context->devices, context->device_count * sizeof(cl_device_id));
  case CL_CONTEXT_PROPERTIES:
    return tps__give(answer, context->properties, context->property_bytes);
  default:
    return TPS_NOT_HERE;
  }
}

cl_int tps__clUnloadPlatformCompiler(cl_platform_id platform) {
  return tps__is(platform, TPS_PLATFORM) ? CL_SUCCESS : CL_INVALID_PLATFORM;
}

cl_int tps__clUnloadCompiler(void) { return CL_SUCCESS; }

/* ---- What a loader asks for */

#define TPS_EXPORT __attribute__((visibility("default")))

TPS_EXPORT cl_int clIcdGetPlatformIDsKHR(cl_uint num_entries, cl_platform_id *platforms,
                                         cl_uint *num_platforms) {
  return tps__clGetPlatformIDs(num_entries, platforms, num_platforms);
}

TPS_EXPORT cl_int clGetPlatformInfo(cl_platform_id platform, cl_uint param_name,
                                    size_t param_value_size, void *param_value,
                                    size_t *param_value_size_ret) {
  return tps__clGetPlatformInfo(platform, param_name, param_value_size, param_value,
                                param_value_size_ret);
}

void *tps__clGetExtensionFunctionAddress(const char *func_name) {
  if (func_name != NULL && strcmp(func_name, "clIcdGetPlatformIDsKHR") == 0)
    return (void *)(intptr_t)clIcdGetPlatformIDsKHR;
  if (func_name != NULL && strcmp(func_name, "clGetPlatformInfo") == 0)
    return (void *)(intptr_t)clGetPlatformInfo;
  return NULL;
}

TPS_EXPORT void *clGetExtensionFunctionAddress(const char *name) {
  return tps__clGetExtensionFunctionAddress(name);
}

void *tps__clGetExtensionFunctionAddressForPlatform(cl_platform_id platform,
                                                    const char *func_name) {
  return tps__is(platform, TPS_PLATFORM) ? tps__clGetExtensionFunctionAddress(func_name) : NULL;
}
