/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Devices: what cuDevice* answers. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "driver.h"

bool emu_is_ordinal(CUdevice device) {
  return device >= 0 && (unsigned)device < emu_driver.visible.count;
}

int emu_ordinal_of(unsigned physical) {
  for (unsigned i = 0; i < emu_driver.visible.count; ++i)
    if (emu_driver.visible.physical[i] == physical)
      return (int)i;
  return -1;
}

static const struct emu_device *described(CUdevice device) {
  return &emu_driver.machine->device[emu_driver.visible.physical[device]];
}

EMU_EXPORT CUresult cuDeviceGetCount(int *count) {
  EMU_NEEDS_INIT();
  if (!count)
    return CUDA_ERROR_INVALID_VALUE;
  *count = (int)emu_driver.visible.count;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  EMU_NEEDS_INIT();
  if (!device)
    return CUDA_ERROR_INVALID_VALUE;
  if (!emu_is_ordinal(ordinal))
    return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  EMU_NEEDS_INIT();
  if (!name || length <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!emu_is_ordinal(device))
    return CUDA_ERROR_INVALID_DEVICE;
  (void)snprintf(name, (size_t)length, "%s (emulated)", described(device)->name);
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  EMU_NEEDS_INIT();
  if (!bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (!emu_is_ordinal(device))
    return CUDA_ERROR_INVALID_DEVICE;
  *bytes = described(device)->memory_bytes;
  return CUDA_SUCCESS;
}

/* The 16 bytes behind "GPU-xxxxxxxx-xxxx-...". */
EMU_EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  EMU_NEEDS_INIT();
  if (!uuid)
    return CUDA_ERROR_INVALID_VALUE;
  if (!emu_is_ordinal(device))
    return CUDA_ERROR_INVALID_DEVICE;
  memset(uuid, 0, sizeof *uuid);
  const char *text = described(device)->uuid;
  unsigned nibbles = 0;
  for (text += strncmp(text, "GPU-", 4) == 0 ? 4 : 0; *text && nibbles < 32; ++text) {
    const char digit[2] = {*text, 0};
    if (!isxdigit((unsigned char)*text))
      continue;
    const unsigned value = (unsigned)strtoul(digit, NULL, 16);
    unsigned char *byte = (unsigned char *)&uuid->bytes[nibbles / 2];
    *byte = (unsigned char)(nibbles % 2 ? *byte | value : value << 4);
    ++nibbles;
  }
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  return cuDeviceGetUuid(uuid, device);
}

static bool pci_parts(const struct emu_device *device, unsigned parts[3]) {
  char *end = NULL;
  parts[0] = (unsigned)strtoul(device->pci, &end, 16);
  if (!end || *end != ':')
    return false;
  parts[1] = (unsigned)strtoul(end + 1, &end, 16);
  if (!end || *end != ':')
    return false;
  parts[2] = (unsigned)strtoul(end + 1, NULL, 16);
  return true;
}

static int attribute(const struct emu_device *device, int which) {
  unsigned pci[3] = {0, 0, 0};
  (void)pci_parts(device, pci);
  switch (which) {
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
    return 1024;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
    return 64;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
    return 48 << 10;
  case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
  case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    return 64 << 10;
  case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    return 2147483647;
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
    return 65535;
  case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
    return 32;
  case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    return 1000000;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    return 1;
  case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
    return 2;
  case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
  case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
  case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
  case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
  case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
  case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
  case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    return 1;
  case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
    return CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
    return (int)pci[0];
  case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
    return (int)pci[1];
  case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
    return (int)pci[2];
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    return device->capability / 10;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    return device->capability % 10;
  default: /* features that the stand-in does not have */
    return 0;
  }
}

EMU_EXPORT CUresult cuDeviceGetAttribute(int *value, int which, CUdevice device) {
  EMU_NEEDS_INIT();
  if (!value || which <= 0 || which > 255)
    return CUDA_ERROR_INVALID_VALUE;
  if (!emu_is_ordinal(device))
    return CUDA_ERROR_INVALID_DEVICE;
  *value = attribute(described(device), which);
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
  EMU_NEEDS_INIT();
  if (!major || !minor)
    return CUDA_ERROR_INVALID_VALUE;
  if (!emu_is_ordinal(device))
    return CUDA_ERROR_INVALID_DEVICE;
  *major = described(device)->capability / 10;
  *minor = described(device)->capability % 10;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device) {
  EMU_NEEDS_INIT();
  if (!text || length <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!emu_is_ordinal(device))
    return CUDA_ERROR_INVALID_DEVICE;
  (void)snprintf(text, (size_t)length, "%s", described(device)->pci);
  for (char *at = text; *at; ++at)
    *at = (char)toupper((unsigned char)*at);
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text) {
  EMU_NEEDS_INIT();
  if (!device || !text)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < emu_driver.visible.count; ++i)
    if (strcasecmp(described((CUdevice)i)->pci, text) == 0) {
      *device = (CUdevice)i;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_DEVICE;
}

EMU_EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  EMU_NEEDS_INIT();
  if (!can)
    return CUDA_ERROR_INVALID_VALUE;
  if (!emu_is_ordinal(device) || !emu_is_ordinal(peer))
    return CUDA_ERROR_INVALID_DEVICE;
  *can = device != peer && emu_way(emu_driver.machine, emu_driver.visible.physical[device],
                                   emu_driver.visible.physical[peer])
                               ->peer;
  return CUDA_SUCCESS;
}

EMU_EXPORT CUresult cuDeviceGetP2PAttribute(int *value, int which, CUdevice from, CUdevice to) {
  EMU_NEEDS_INIT();
  if (!value || which < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
      which > CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED)
    return CUDA_ERROR_INVALID_VALUE;
  if (!emu_is_ordinal(from) || !emu_is_ordinal(to) || from == to)
    return CUDA_ERROR_INVALID_DEVICE;
  const unsigned a = emu_driver.visible.physical[from];
  const unsigned b = emu_driver.visible.physical[to];
  const bool nvlink = emu_nvlinked(emu_driver.machine, a, b);
  if (which == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)
    *value = !nvlink;
  else if (which == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)
    *value = nvlink;
  else
    *value = emu_way(emu_driver.machine, a, b)->peer;
  return CUDA_SUCCESS;
}
