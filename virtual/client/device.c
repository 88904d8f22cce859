/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "device.h"

#include <stdlib.h>
#include <string.h>

struct _cl_platform_id tps__platform = {
    .base = {.dispatch = &tps__dispatch, .kind = TPS_PLATFORM, .users = 1, .holds = 1}};

static cl_device_id devices[MOST_DEVICES];
static cl_uint device_count;

/* A device and what is known of it. */
static cl_device_id take_device(struct tps_link *link, struct tps_cursor *in) {
  cl_device_id device = tps__object_new(sizeof *device, TPS_DEVICE, link);
  size_t length = 0;
  for (uint64_t facts = tps_take(in); device != NULL && facts > 0 && !in->bad; facts--) {
    cl_uint name = (cl_uint)tps_take(in);
    const unsigned char *bytes = tps_take_bytes(in, &length);
    if (!in->bad)
      tps__learn(&device->base, TPS_CALL_GetDeviceInfo, 0, name, bytes, length);
  }
  return device;
}

/* The facts of all devices of a proxy come with its first answer. */
bool tps__learn_devices(struct tps_link *link) {
  struct tps_reply reply;
  tps__begin(link, TPS_DEVICES, &reply);
  cl_int code = tps__answer(link, &reply);
  size_t length = 0;
  const unsigned char *host = code == 0 ? tps_take_bytes(&reply.in, &length) : NULL;
  link->host = strndup(host == NULL ? "" : (const char *)host, length);
  uint64_t count = tps_take(&reply.in);
  for (uint64_t i = 0; i < count && !reply.in.bad && i < MOST_DEVICES; i++) {
    uint64_t held = tps_take(&reply.in);
    cl_device_id device = take_device(link, &reply.in);
    if (device == NULL)
      break;
    device->held = held;
    device->index = (unsigned)i;
    device->base.id = i + 1;
    device->next = link->devices;
    link->devices = device;
  }
  tps__reply_free(&reply);
  return code == 0;
}

void tps__keep_device(cl_device_id device) {
  if (device_count < MOST_DEVICES)
    devices[device_count++] = device;
}

cl_uint tps__known_devices(cl_device_id **list) {
  *list = devices;
  return device_count;
}

cl_ulong tps__device_number(cl_device_id device, cl_uint name) {
  cl_ulong number = 0;
  struct tps_answer answer = {sizeof number, &number, NULL};
  (void)tps__ask(&device->base, TPS_CALL_GetDeviceInfo, NULL, name, &answer);
  return number;
}

cl_int tps__about_device(cl_device_id device, cl_uint name, const struct tps_answer *answer) {
  switch (name) {
  case CL_DEVICE_PLATFORM:
    return TPS_GIVE(answer, cl_platform_id, &tps__platform);
  case CL_DEVICE_PARENT_DEVICE:
    return TPS_GIVE(answer, cl_device_id, device->parent);
  case CL_DEVICE_AVAILABLE:
    return TPS_GIVE(answer, cl_uint, !atomic_load(&device->base.link->is_dead));
  default:
    return tps__ask(&device->base, TPS_CALL_GetDeviceInfo, NULL, name, answer);
  }
}

bool tps__context_has(cl_context context, cl_device_id device) {
  for (cl_uint i = 0; i < context->device_count; i++)
    if (context->devices[i] == device)
      return true;
  return false;
}

/* ---- Sub-devices */

cl_int tps__clCreateSubDevices(cl_device_id in_device, const intptr_t *properties,
                               cl_uint num_devices, cl_device_id *out_devices,
                               cl_uint *num_devices_ret) {
  if (!tps__is(in_device, TPS_DEVICE))
    return CL_INVALID_DEVICE;
  if (properties == NULL || (out_devices == NULL && num_devices_ret == NULL))
    return CL_INVALID_VALUE;
  size_t words = 1; /* kind, then one value, or counts up to a 0; and a 0 */
  if (properties[0] == CL_DEVICE_PARTITION_BY_COUNTS)
    while (properties[words] != 0)
      words++;
  words += properties[0] == 0 ? 0 : 2;
  struct tps_link *link = in_device->base.link;
  uint64_t first = atomic_fetch_add(&link->ids, MOST_DEVICES);
  struct tps_reply reply;
  struct tps_text *out = tps__begin(link, TPS_CALL_CreateSubDevices, &reply);
  tps_put(out, in_device->base.id);
  tps_put_bytes(out, properties, words * sizeof *properties);
  tps_put(out, out_devices == NULL ? 0 : num_devices < MOST_DEVICES ? num_devices : MOST_DEVICES);
  tps_put(out, first);
  cl_int code = tps__answer(link, &reply);
  cl_uint count = (cl_uint)tps_take(&reply.in);
  for (cl_uint i = 0; code == 0 && out_devices != NULL && i < count && i < num_devices; i++) {
    out_devices[i] = take_device(link, &reply.in);
    if (out_devices[i] == NULL) {
      code = CL_OUT_OF_HOST_MEMORY;
      break;
    }
    out_devices[i]->base.id = first + i;
    out_devices[i]->parent = in_device;
    tps__hold(in_device);
    atomic_fetch_add(&link->sub_devices, 1);
  }
  tps__reply_free(&reply);
  if (code == 0 && num_devices_ret != NULL)
    *num_devices_ret = count;
  return code;
}
