/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

struct name {
  size_t offset; /* of the pointer in tdc_driver */
  const char *cuda, *hip;
};

#define CALL(member, cuda, hip) {offsetof(struct tdc_driver, member), cuda, hip}

static const struct name names[] = {
    CALL(init, "cuInit", "hipInit"),
    CALL(device_count, "cuDeviceGetCount", "hipGetDeviceCount"),
    CALL(can_access_peer, "cuDeviceCanAccessPeer", "hipDeviceCanAccessPeer"),
    CALL(pci_bus_id, "cuDeviceGetPCIBusId", "hipDeviceGetPCIBusId"),
    CALL(device_by_pci, "cuDeviceGetByPCIBusId", "hipDeviceGetByPCIBusId"),
    CALL(retain_primary, "cuDevicePrimaryCtxRetain", "hipDevicePrimaryCtxRetain"),
    CALL(release_primary, "cuDevicePrimaryCtxRelease_v2", "hipDevicePrimaryCtxRelease"),
    CALL(set_current, "cuCtxSetCurrent", "hipCtxSetCurrent"),
    CALL(enable_peer, "cuCtxEnablePeerAccess", "hipCtxEnablePeerAccess"),
    CALL(allocate, "cuMemAlloc_v2", "hipMalloc"),
    CALL(free, "cuMemFree_v2", "hipFree"),
    CALL(address_range, "cuMemGetAddressRange_v2", "hipMemGetAddressRange"),
    CALL(pointer_attribute, "cuPointerGetAttribute", "hipPointerGetAttribute"),
    CALL(ipc_get, "cuIpcGetMemHandle", "hipIpcGetMemHandle"),
    CALL(ipc_open, "cuIpcOpenMemHandle_v2", "hipIpcOpenMemHandle"),
    CALL(ipc_close, "cuIpcCloseMemHandle", "hipIpcCloseMemHandle"),
    CALL(stream_create, "cuStreamCreate", "hipStreamCreateWithFlags"),
    CALL(stream_destroy, "cuStreamDestroy_v2", "hipStreamDestroy"),
    CALL(stream_synchronize, "cuStreamSynchronize", "hipStreamSynchronize"),
    CALL(stream_query, "cuStreamQuery", "hipStreamQuery"),
    CALL(event_create, "cuEventCreate", "hipEventCreateWithFlags"),
    CALL(event_destroy, "cuEventDestroy_v2", "hipEventDestroy"),
    CALL(event_record, "cuEventRecord", "hipEventRecord"),
    CALL(event_query, "cuEventQuery", "hipEventQuery"),
    CALL(copy, "cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync"),
    CALL(copy_in, "cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync"),
    CALL(copy_out, "cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync"),
    CALL(register_host, "cuMemHostRegister_v2", "hipHostRegister"),
    CALL(unregister_host, "cuMemHostUnregister", "hipHostUnregister"),
};

static const struct name virtual_names[] = {
    CALL(retain_handle, "cuMemRetainAllocationHandle", "hipMemRetainAllocationHandle"),
    CALL(export_handle, "cuMemExportToShareableHandle", "hipMemExportToShareableHandle"),
    CALL(import_handle, "cuMemImportFromShareableHandle", "hipMemImportFromShareableHandle"),
    CALL(release_handle, "cuMemRelease", "hipMemRelease"),
    CALL(reserve, "cuMemAddressReserve", "hipMemAddressReserve"),
    CALL(free_addresses, "cuMemAddressFree", "hipMemAddressFree"),
    CALL(map, "cuMemMap", "hipMemMap"),
    CALL(unmap, "cuMemUnmap", "hipMemUnmap"),
    CALL(set_access, "cuMemSetAccess", "hipMemSetAccess"),
};

/* Looks all calls up; false if one is missing. */
static bool look_up(struct tdc_driver *driver, void *library, bool is_hip,
                    const struct name *wanted, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    void *found = dlsym(library, is_hip ? wanted[i].hip : wanted[i].cuda);
    if (!found)
      return false;
    /* POSIX promises that a pointer from dlsym holds a function's address. */
    memcpy((char *)driver + wanted[i].offset, (const void *)&found, sizeof found);
  }
  return true;
}

/* A library that lacks one call is not used at all, but for those of virtual memory. */
static bool fill(struct tdc_driver *driver, void *library, bool is_hip) {
  if (!look_up(driver, library, is_hip, names, sizeof names / sizeof names[0]))
    return false;
  driver->has_virtual = look_up(driver, library, is_hip, virtual_names,
                                sizeof virtual_names / sizeof virtual_names[0]);
  driver->is_hip = is_hip;
  int count = 0;
  return driver->init(0) == 0 && driver->device_count(&count) == 0 && count > 0;
}

static struct tdc_driver loaded;
static bool is_loaded;

static bool load(const char *name, bool is_hip) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  return library && fill(&loaded, library, is_hip);
}

static void load_once(void) {
  is_loaded =
      load("libcuda.so.1", false) || load("libamdhip64.so", true) || load("libamdhip64.so.6", true);
}

const struct tdc_driver *tdc_load_driver(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, load_once);
  return is_loaded ? &loaded : NULL;
}
