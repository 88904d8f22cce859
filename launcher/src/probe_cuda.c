/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "probe_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_DEVICES = 256, CUDA_NOT_INITIALIZED = 3, CUDA_DEINITIALIZED = 4 };

struct cuda {
  int (*device_count)(int *);
  int (*device_get)(int *, int);
  int (*primary_state)(int, unsigned *, int *);
  int (*pci_bus_id)(char *, int, int);
  int (*context_device)(int *);
};

/* ISO C has no conversion from an object pointer to a function pointer; POSIX wants it to work. */
static void load_symbol(void *library, const char *name, void *target) {
  void *symbol = dlsym(library, name);
  memcpy(target, (const void *)&symbol, sizeof symbol);
}

static bool find_cuda(struct cuda *cuda) {
  void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL)
    return false;
  load_symbol(library, "cuDeviceGetCount", (void *)&cuda->device_count);
  load_symbol(library, "cuDeviceGet", (void *)&cuda->device_get);
  load_symbol(library, "cuDevicePrimaryCtxGetState", (void *)&cuda->primary_state);
  load_symbol(library, "cuDeviceGetPCIBusId", (void *)&cuda->pci_bus_id);
  load_symbol(library, "cuCtxGetDevice", (void *)&cuda->context_device);
  return cuda->device_count != NULL && cuda->device_get != NULL && cuda->primary_state != NULL &&
         cuda->pci_bus_id != NULL;
}

struct devices {
  const char *planned; /* NULL: none */
  struct tps_text offered, used;
  bool offers_planned, uses_planned;
};

/* "0000:41:00.0" is "00000000:41:00.0". */
static bool is_same_device(const char *first, const char *second) {
  char *first_rest, *second_rest;
  unsigned long one = strtoul(first, &first_rest, 16), other = strtoul(second, &second_rest, 16);
  return one == other && strcasecmp(first_rest, second_rest) == 0;
}

static void add_name(struct tps_text *list, const char *pci, const char *planned, bool *found) {
  tps_text_add(list, "%s%s", list->length == 0 ? "" : ",", pci);
  *found |= planned != NULL && is_same_device(pci, planned);
}

/* A device is in use if its primary context is active (runtime API) or it belongs to the calling
   thread's context (driver API). */
static int add_device(const struct cuda *cuda, int device, int current, struct devices *devices) {
  unsigned flags = 0;
  int active = 0;
  char pci[32] = "";
  int error = cuda->primary_state(device, &flags, &active);
  if (error == 0)
    error = cuda->pci_bus_id(pci, (int)sizeof pci, device);
  pci[sizeof pci - 1] = '\0';
  if (error != 0)
    return error;
  add_name(&devices->offered, pci, devices->planned, &devices->offers_planned);
  if (active || device == current)
    add_name(&devices->used, pci, devices->planned, &devices->uses_planned);
  return 0;
}

static int list_devices(const struct cuda *cuda, struct devices *devices) {
  int count = 0;
  int error = cuda->device_count(&count);
  if (error != 0)
    return error;
  int current = -1;
  if (cuda->context_device == NULL || cuda->context_device(&current) != 0)
    current = -1;
  for (int i = 0; i < count && i < MAX_DEVICES && error == 0; i++) {
    int device = -1;
    error = cuda->device_get(&device, i);
    if (error == 0)
      error = add_device(cuda, device, current, devices);
  }
  return error;
}

bool tps_probe_add_cuda(struct tps_report *report, const char *planned, bool *elsewhere) {
  struct cuda cuda = {0};
  *elsewhere = false;
  if (!find_cuda(&cuda)) {
    tps_report_add(report, "cuda", "not loaded");
    return false;
  }
  struct devices devices = {.planned = planned};
  tps_text_init(&devices.offered);
  tps_text_init(&devices.used);
  int error = list_devices(&cuda, &devices);
  bool used = error == 0 && devices.used.length > 0;
  if (error == CUDA_DEINITIALIZED) {
    tps_report_add(report, "cuda", "already shut down");
  } else if (error == CUDA_NOT_INITIALIZED) {
    tps_report_add(report, "cuda", "not initialised");
  } else if (error != 0) {
    char text[32];
    snprintf(text, sizeof text, "error %d", error);
    tps_report_add(report, "cuda", text);
  } else {
    tps_report_add(report, "cuda", "asked");
    tps_report_add(report, "cuda_devices", devices.used.data);
    tps_report_add(report, "cuda_list", devices.offered.data);
    *elsewhere = planned != NULL && (!devices.offers_planned || (used && !devices.uses_planned));
  }
  tps_text_free(&devices.offered);
  tps_text_free(&devices.used);
  return used;
}
