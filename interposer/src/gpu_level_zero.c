/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Level Zero. It answers questions about a pointer only within the context that allocated it, so
 * the application's contexts are noted as they are made: zeContextCreate is exported here, in front
 * of the loader's. Contexts made before this library could see it (a loader that was opened with
 * dlsym alone) are not known, and their memory counts as host memory; a flag of the record says
 * that Level Zero was there without a context.
 *
 * Shared memory counts as device memory, like CUDA's managed memory. A device's ordinal is its
 * place in zeDeviceGet of the first driver that lists it.
 */
#include <stdio.h>

#include "gpu.h"

#define MAX_CONTEXTS 16
#define MAX_DRIVERS 8
#define MAX_DEVICES 64
#define SUCCESS 0
#define UNINITIALISED 0x78000001

enum { TYPE_MEMORY_PROPERTIES = 0x17, TYPE_PCI_PROPERTIES = 0x10008 };
enum { MEMORY_DEVICE = 2, MEMORY_SHARED = 3 };

struct memory_properties {
  int type_of_struct;
  void *next;
  int type;
  uint64_t id;
  uint64_t page_size;
};
struct pci_properties {
  int type_of_struct;
  void *next;
  uint32_t domain, bus, device, function;
  struct {
    int32_t generation, width;
    int64_t bandwidth;
  } speed;
};

typedef int ask_properties(void *context, const void *pointer, struct memory_properties *properties,
                           void **device);
typedef int ask_range(void *context, const void *pointer, void **base, size_t *size);
typedef int ask_list(uint32_t *count, void **drivers);
typedef int ask_devices(void *driver, uint32_t *count, void **devices);
typedef int ask_pci(void *device, struct pci_properties *properties);

static struct {
  ask_properties *properties;
  ask_range *range;
  ask_list *drivers;
  ask_devices *devices;
  ask_pci *pci;
} loader;

static void *contexts[MAX_CONTEXTS];

static void note_context(void *context) {
  for (size_t i = 0; i < MAX_CONTEXTS; ++i) {
    void *none = NULL;
    if (__atomic_compare_exchange_n(&contexts[i], &none, context, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED))
      break;
  }
  tps__gpu_look_again();
}

static void forget_context(void *context) {
  for (size_t i = 0; i < MAX_CONTEXTS; ++i) {
    void *same = context;
    __atomic_compare_exchange_n(&contexts[i], &same, NULL, false, __ATOMIC_ACQ_REL,
                                __ATOMIC_RELAXED);
  }
  tps__gpu_forget();
}

static bool look(void) {
  void *library = tps__loaded("libze_loader.so", "zeMemGetAllocProperties");
  bool has_context = false;
  for (size_t i = 0; i < MAX_CONTEXTS && !has_context; ++i)
    has_context = __atomic_load_n(&contexts[i], __ATOMIC_ACQUIRE) != NULL;
  if (library == NULL)
    return false;
  uint32_t flag = TPS_FLAG_LEVEL_ZERO;
  uint32_t *flags = &tps__process.header->flags;
  if (!has_context) {
    __atomic_fetch_or(flags, flag, __ATOMIC_RELAXED);
    return false;
  }
  loader.range = (ask_range *)tps__symbol(library, "zeMemGetAddressRange");
  loader.drivers = (ask_list *)tps__symbol(library, "zeDriverGet");
  loader.devices = (ask_devices *)tps__symbol(library, "zeDeviceGet");
  loader.pci = (ask_pci *)tps__symbol(library, "zeDevicePciGetPropertiesExt");
  loader.properties = (ask_properties *)tps__symbol(library, "zeMemGetAllocProperties");
  if (loader.properties == NULL)
    return false;
  __atomic_fetch_and(flags, ~flag, __ATOMIC_RELAXED);
  return true;
}

/* All devices, in the order of drivers and of each driver's devices. Returns how many. */
static int list_devices(void **devices) {
  void *drivers[MAX_DRIVERS];
  uint32_t driver_count = MAX_DRIVERS;
  uint32_t known = 0;
  if (loader.drivers == NULL || loader.devices == NULL ||
      loader.drivers(&driver_count, drivers) != SUCCESS)
    return -1;
  for (uint32_t i = 0; i < driver_count && i < MAX_DRIVERS && known < MAX_DEVICES; ++i) {
    uint32_t count = MAX_DEVICES - known;
    if (loader.devices(drivers[i], &count, devices + known) == SUCCESS)
      known += count;
  }
  return (int)known;
}

static int ordinal_of(const void *device) {
  void *devices[MAX_DEVICES];
  int count = list_devices(devices);
  for (int i = 0; i < count; ++i)
    if (devices[i] == device)
      return i;
  return -1;
}

static bool ask_context(void *context, uintptr_t pointer, struct tps_answer *answer) {
  struct memory_properties properties = {.type_of_struct = TYPE_MEMORY_PROPERTIES};
  void *device = NULL;
  void *base = NULL;
  size_t size = 0;
  const void *address = (const void *)pointer;
  if (loader.properties(context, address, &properties, &device) != SUCCESS)
    return false;
  if (properties.type != MEMORY_DEVICE && properties.type != MEMORY_SHARED)
    return false;
  *answer = (struct tps_answer){.ordinal = ordinal_of(device)};
  if (loader.range != NULL && loader.range(context, address, &base, &size) == SUCCESS) {
    answer->low = (uintptr_t)base;
    answer->high = (uintptr_t)base + size;
  }
  return true;
}

static bool ask(uintptr_t pointer, struct tps_answer *answer) {
  for (size_t i = 0; i < MAX_CONTEXTS; ++i) {
    void *context = __atomic_load_n(&contexts[i], __ATOMIC_ACQUIRE);
    if (context != NULL && ask_context(context, pointer, answer))
      return true;
  }
  return false;
}

static bool pci(int ordinal, char *text, int room) {
  struct pci_properties found = {.type_of_struct = TYPE_PCI_PROPERTIES};
  void *devices[MAX_DEVICES];
  if (loader.pci == NULL || ordinal < 0 || ordinal >= list_devices(devices) ||
      loader.pci(devices[ordinal], &found) != SUCCESS)
    return false;
  snprintf(text, (size_t)room, "%04x:%02x:%02x.%x", found.domain, found.bus, found.device,
           found.function);
  return true;
}

static int count(void) {
  void *devices[MAX_DEVICES];
  return list_devices(devices);
}

const struct tps_runtime tps__level_zero = {
    .kind = TPS_GPU_LEVEL_ZERO, .look = look, .ask = ask, .pci = pci, .count = count};

TPS_EXPORT int zeContextCreate(void *driver, const void *description, void **context);
TPS_EXPORT int zeContextCreateEx(void *driver, const void *description, uint32_t count,
                                 void **devices, void **context);
TPS_EXPORT int zeContextDestroy(void *context);

int zeContextCreate(void *driver, const void *description, void **context) {
  typedef int real_call(void *, const void *, void **);
  real_call *real = (real_call *)tps__gpu_real("zeContextCreate", __builtin_return_address(0));
  int code = real != NULL ? real(driver, description, context) : UNINITIALISED;
  if (code == SUCCESS && context != NULL)
    note_context(*context);
  return code;
}

int zeContextCreateEx(void *driver, const void *description, uint32_t count, void **devices,
                      void **context) {
  typedef int real_call(void *, const void *, uint32_t, void **, void **);
  real_call *real = (real_call *)tps__gpu_real("zeContextCreateEx", __builtin_return_address(0));
  int code = real != NULL ? real(driver, description, count, devices, context) : UNINITIALISED;
  if (code == SUCCESS && context != NULL)
    note_context(*context);
  return code;
}

int zeContextDestroy(void *context) {
  typedef int real_call(void *);
  real_call *real = (real_call *)tps__gpu_real("zeContextDestroy", __builtin_return_address(0));
  forget_context(context);
  return real != NULL ? real(context) : UNINITIALISED;
}
