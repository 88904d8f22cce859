/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * CUDA and HIP, whose pointer queries have the same form. Managed memory counts as device memory
 * wherever its pages are at the moment: it is the application's choice to use it from the device,
 * and MPI libraries treat it as such. Memory of the VMM interface (cuMemMap) is device memory like
 * any other; its "allocation" is one mapping.
 */
#include "gpu.h"

/* The CUDA driver's attribute numbers; HIP took them over. */
enum { ATTRIBUTE_MEMORY_TYPE = 2, ATTRIBUTE_IS_MANAGED = 8, ATTRIBUTE_DEVICE_ORDINAL = 9 };

typedef int ask_attribute(void *answer, int attribute, uintptr_t pointer);
typedef int ask_range(uintptr_t *start, size_t *size, uintptr_t pointer);
typedef int ask_pci(char *text, int length, int device);
typedef int ask_count(int *count);

static struct {
  unsigned device_memory; /* the runtime's number for device memory */
  ask_attribute *attribute;
  ask_range *range;
  ask_pci *pci;
  ask_count *count;
} driver;

static bool look_for_cuda(void) {
  void *library = tps__loaded("libcuda.so", "cuPointerGetAttribute");
  if (library == NULL)
    return false;
  driver.range = (ask_range *)tps__symbol(library, "cuMemGetAddressRange_v2");
  driver.pci = (ask_pci *)tps__symbol(library, "cuDeviceGetPCIBusId");
  driver.count = (ask_count *)tps__symbol(library, "cuDeviceGetCount");
  driver.device_memory = 2;
  driver.attribute = (ask_attribute *)tps__symbol(library, "cuPointerGetAttribute");
  return driver.attribute != NULL;
}

/* ROCm 6 renumbered the memory types (unregistered 0, host 1, device 2); before, device was 1. */
static unsigned hip_device_memory(void *library) {
  ask_count *version = (ask_count *)tps__symbol(library, "hipRuntimeGetVersion");
  int number = 0; /* major * 10^7 + minor * 10^5 + patch */
  return version != NULL && version(&number) == 0 && number < 60000000 ? 1 : 2;
}

static bool look_for_hip(void) {
  void *library = tps__loaded("libamdhip64.so", "hipPointerGetAttribute");
  if (library == NULL)
    return false;
  driver.range = (ask_range *)tps__symbol(library, "hipMemGetAddressRange");
  driver.pci = (ask_pci *)tps__symbol(library, "hipDeviceGetPCIBusId");
  driver.count = (ask_count *)tps__symbol(library, "hipGetDeviceCount");
  driver.device_memory = hip_device_memory(library);
  driver.attribute = (ask_attribute *)tps__symbol(library, "hipPointerGetAttribute");
  return driver.attribute != NULL;
}

static bool is_managed(uintptr_t pointer) {
  unsigned managed = 0; /* CUDA writes an int, HIP a bool into its first byte */
  return driver.attribute(&managed, ATTRIBUTE_IS_MANAGED, pointer) == 0 && managed != 0;
}

static bool ask(uintptr_t pointer, struct tps_answer *answer) {
  unsigned type = 0;
  uintptr_t start = 0;
  size_t size = 0;
  if (driver.attribute(&type, ATTRIBUTE_MEMORY_TYPE, pointer) != 0)
    return false; /* not the runtime's memory */
  if (type != driver.device_memory && !is_managed(pointer))
    return false;
  *answer = (struct tps_answer){.ordinal = -1};
  if (driver.attribute(&answer->ordinal, ATTRIBUTE_DEVICE_ORDINAL, pointer) != 0)
    answer->ordinal = -1;
  if (driver.range != NULL && driver.range(&start, &size, pointer) == 0 && pointer >= start &&
      pointer - start < size) {
    answer->low = start;
    answer->high = start + size;
  }
  return true;
}

static bool pci(int ordinal, char *text, int room) {
  return driver.pci != NULL && driver.pci(text, room, ordinal) == 0;
}

static int count(void) {
  int devices = -1;
  return driver.count != NULL && driver.count(&devices) == 0 ? devices : -1;
}

const struct tps_runtime tps__cuda = {
    .kind = TPS_GPU_CUDA, .look = look_for_cuda, .ask = ask, .pci = pci, .count = count};
const struct tps_runtime tps__hip = {
    .kind = TPS_GPU_HIP, .look = look_for_hip, .ask = ask, .pci = pci, .count = count};
