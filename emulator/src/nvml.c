/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The management library's stand-in: what nvidia-smi would know of the emulated node. It numbers
   devices in PCI order whatever CUDA_VISIBLE_DEVICES says; only a cgroup hides some. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "machine.h"
#include "nvml_abi.h"
#include "state.h"
#include "visible.h"

#define NVML_EXPORT __attribute__((visibility("default")))
/* The name that programs use which were built with older headers. */
#define NVML_ALIAS(name, of, parameters)                                                           \
  NVML_EXPORT nvmlReturn_t name parameters __attribute__((alias(#of)));

struct nvmlDevice_st {
  unsigned physical;
};

static struct nvmlDevice_st devices[EMU_MAX_DEVICES]; /* those that are not hidden */
static unsigned count;
static const struct emu_machine *machine;
static unsigned users;

NVML_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  machine = emu_machine();
  if (!machine || !emu_state_open(machine))
    return NVML_ERROR_DRIVER_NOT_LOADED;
  if (users++ == 0)
    for (unsigned i = 0; i < machine->devices; ++i)
      if (!emu_is_hidden(machine, i))
        devices[count++].physical = i;
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

NVML_EXPORT nvmlReturn_t nvmlInit(void) { return nvmlInitWithFlags(0); }

NVML_EXPORT nvmlReturn_t nvmlShutdown(void) {
  if (users == 0)
    return NVML_ERROR_UNINITIALIZED;
  if (--users == 0)
    count = 0;
  return NVML_SUCCESS;
}

static bool is_device(nvmlDevice_t device) {
  return users && device >= devices && device < devices + count;
}

static const struct emu_device *described(nvmlDevice_t device) {
  return &machine->device[device->physical];
}

static nvmlReturn_t put_text(char *to, unsigned length, const char *text) {
  if (!to)
    return NVML_ERROR_INVALID_ARGUMENT;
  if (strlen(text) >= length)
    return NVML_ERROR_INSUFFICIENT_SIZE;
  (void)snprintf(to, length, "%s", text);
  return NVML_SUCCESS;
}

NVML_EXPORT const char *nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
  case NVML_SUCCESS:
    return "Success";
  case NVML_ERROR_UNINITIALIZED:
    return "Uninitialized";
  case NVML_ERROR_INVALID_ARGUMENT:
    return "Invalid Argument";
  case NVML_ERROR_NOT_SUPPORTED:
    return "Not Supported";
  case NVML_ERROR_NOT_FOUND:
    return "Not Found";
  case NVML_ERROR_INSUFFICIENT_SIZE:
    return "Insufficient Size";
  case NVML_ERROR_DRIVER_NOT_LOADED:
    return "Driver Not Loaded";
  default:
    return "Unknown Error";
  }
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *text, unsigned length) {
  return put_text(text, length, "0.0 (toposeat emulator)");
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *text, unsigned length) {
  return put_text(text, length, "12.0 (toposeat emulator)");
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
  if (!version)
    return NVML_ERROR_INVALID_ARGUMENT;
  *version = EMU_CUDA_VERSION;
  return NVML_SUCCESS;
}

/* ---- finding devices */

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *result) {
  if (!users)
    return NVML_ERROR_UNINITIALIZED;
  if (!result)
    return NVML_ERROR_INVALID_ARGUMENT;
  *result = count;
  return NVML_SUCCESS;
}

NVML_ALIAS(nvmlDeviceGetCount, nvmlDeviceGetCount_v2, (unsigned *result))

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
  if (!users)
    return NVML_ERROR_UNINITIALIZED;
  if (!device || index >= count)
    return NVML_ERROR_INVALID_ARGUMENT;
  *device = &devices[index];
  return NVML_SUCCESS;
}

NVML_ALIAS(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2,
           (unsigned index, nvmlDevice_t *device))

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
  if (!users)
    return NVML_ERROR_UNINITIALIZED;
  for (unsigned i = 0; uuid && device && i < count; ++i)
    if (strcasecmp(described(&devices[i])->uuid, uuid) == 0) {
      *device = &devices[i];
      return NVML_SUCCESS;
    }
  return uuid && device ? NVML_ERROR_NOT_FOUND : NVML_ERROR_INVALID_ARGUMENT;
}

struct bus_id {
  unsigned domain, bus, device;
};

static bool parse_bus_id(const char *text, struct bus_id *id) {
  char *end = NULL;
  id->domain = (unsigned)strtoul(text, &end, 16);
  if (*end != ':')
    return false;
  id->bus = (unsigned)strtoul(end + 1, &end, 16);
  if (*end != ':')
    return false;
  id->device = (unsigned)strtoul(end + 1, &end, 16);
  return *end == '.' || *end == 0;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *text, nvmlDevice_t *device) {
  struct bus_id wanted;
  struct bus_id each;
  if (!users)
    return NVML_ERROR_UNINITIALIZED;
  if (!text || !device || !parse_bus_id(text, &wanted))
    return NVML_ERROR_INVALID_ARGUMENT;
  for (unsigned i = 0; i < count; ++i)
    if (parse_bus_id(described(&devices[i])->pci, &each) && each.domain == wanted.domain &&
        each.bus == wanted.bus && each.device == wanted.device) {
      *device = &devices[i];
      return NVML_SUCCESS;
    }
  return NVML_ERROR_NOT_FOUND;
}

NVML_ALIAS(nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2,
           (const char *text, nvmlDevice_t *device))

/* ---- what a device is */

NVML_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index) {
  if (!is_device(device) || !index)
    return NVML_ERROR_INVALID_ARGUMENT;
  *index = (unsigned)(device - devices);
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length) {
  if (!is_device(device))
    return NVML_ERROR_INVALID_ARGUMENT;
  char text[96];
  (void)snprintf(text, sizeof text, "%s (emulated)", described(device)->name);
  return put_text(name, length, text);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length) {
  return is_device(device) ? put_text(uuid, length, described(device)->uuid)
                           : NVML_ERROR_INVALID_ARGUMENT;
}

static void fill_pci(const char *text, nvmlPciInfo_t *pci) {
  struct bus_id id;
  memset(pci, 0, sizeof *pci);
  if (!parse_bus_id(text, &id))
    return;
  pci->domain = id.domain;
  pci->bus = id.bus;
  pci->device = id.device;
  pci->pciDeviceId = 0x10de; /* the vendor is in the lower half */
  (void)snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", id.domain, id.bus, id.device);
  (void)snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", id.domain, id.bus,
                 id.device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
  if (!is_device(device) || !pci)
    return NVML_ERROR_INVALID_ARGUMENT;
  fill_pci(described(device)->pci, pci);
  return NVML_SUCCESS;
}

static void fill_old_pci(const char *text, nvmlPciInfo_v2_t *old) {
  nvmlPciInfo_t pci;
  fill_pci(text, &pci);
  memcpy(old->busId, pci.busIdLegacy, sizeof old->busId);
  old->domain = pci.domain;
  old->bus = pci.bus;
  old->device = pci.device;
  old->pciDeviceId = pci.pciDeviceId;
  old->pciSubSystemId = pci.pciSubSystemId;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_v2_t *pci) {
  if (!is_device(device) || !pci)
    return NVML_ERROR_INVALID_ARGUMENT;
  fill_old_pci(described(device)->pci, pci);
  return NVML_SUCCESS;
}

NVML_ALIAS(nvmlDeviceGetPciInfo, nvmlDeviceGetPciInfo_v2,
           (nvmlDevice_t device, nvmlPciInfo_v2_t *pci))

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
  if (!is_device(device) || !memory)
    return NVML_ERROR_INVALID_ARGUMENT;
  memory->total = described(device)->memory_bytes;
  memory->used = emu_memory_used(device->physical);
  memory->free = memory->used < memory->total ? memory->total - memory->used : 0;
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major,
                                                            int *minor) {
  if (!is_device(device) || !major || !minor)
    return NVML_ERROR_INVALID_ARGUMENT;
  *major = described(device)->capability / 10;
  *minor = described(device)->capability % 10;
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *now, unsigned *later) {
  (void)now;
  (void)later;
  return is_device(device) ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

/* A number that is told; 0 is none. */
static nvmlReturn_t put_number(nvmlDevice_t device, unsigned *to, int value) {
  if (!is_device(device) || !to)
    return NVML_ERROR_INVALID_ARGUMENT;
  if (value == 0)
    return NVML_ERROR_NOT_SUPPORTED;
  *to = (unsigned)value;
  return NVML_SUCCESS;
}

#define GENERATION (is_device(device) ? described(device)->pcie_generation : 0)
#define WIDTH (is_device(device) ? described(device)->pcie_width : 0)

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned *to) {
  return put_number(device, to, GENERATION);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned *to) {
  return put_number(device, to, GENERATION);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned *to) {
  return put_number(device, to, WIDTH);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned *to) {
  return put_number(device, to, WIDTH);
}

/* The CPUs and nodes of the host are the real ones: the emulated machine's are not there. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned words,
                                                  unsigned long *set) {
  (void)words;
  (void)set;
  return is_device(device) ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

/* ---- pairs */

static size_t pair(nvmlDevice_t a, nvmlDevice_t b) {
  return (size_t)a->physical * machine->devices + b->physical;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b,
                                                             int *level) {
  if (!is_device(a) || !is_device(b) || !level)
    return NVML_ERROR_INVALID_ARGUMENT;
  *level = a == b ? 0 : machine->ancestor[pair(a, b)];
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, int which,
                                                int *status) {
  enum { READ = 0, WRITE = 1, NVLINK = 2, ATOMICS = 3, OK = 0, NOT_SUPPORTED = 5 };
  if (!is_device(a) || !is_device(b) || !status || which < READ || which > ATOMICS)
    return NVML_ERROR_INVALID_ARGUMENT;
  const bool by_nvlink = emu_nvlinked(machine, a->physical, b->physical);
  const bool peer = a == b || emu_way(machine, a->physical, b->physical)->peer;
  *status = (which <= WRITE ? peer : by_nvlink) ? OK : NOT_SUPPORTED;
  return NVML_SUCCESS;
}

/* The other end of a lane: NVML's kind of device, and its bus id. */
struct far_end {
  enum { FAR_GPU = 0, FAR_CPU = 1, FAR_SWITCH = 2 } kind;
  const char *pci;
};

/* Lanes are numbered by the device they lead to, in the order of devices; then come the ports. */
static bool lane_leads(nvmlDevice_t device, unsigned lane, struct far_end *end) {
  unsigned first = 0;
  for (unsigned other = 0; other < machine->devices; ++other) {
    const unsigned lanes = machine->nvlinks[(size_t)device->physical * machine->devices + other];
    if (lane < first + lanes) {
      *end = (struct far_end){FAR_GPU, machine->device[other].pci};
      return true;
    }
    first += lanes;
  }
  const struct emu_device *here = described(device);
  for (unsigned i = 0; i < here->ports; ++i) {
    const struct emu_port *port = &here->port[i];
    if (lane < first + port->lanes) {
      *end = (struct far_end){port->to_switch ? FAR_SWITCH : FAR_CPU, port->pci};
      return true;
    }
    first += port->lanes;
  }
  return false;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned lane, int *active) {
  struct far_end end;
  if (!is_device(device) || !active)
    return NVML_ERROR_INVALID_ARGUMENT;
  if (!lane_leads(device, lane, &end))
    return lane < EMU_MAX_LANES ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
  *active = 1;
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned lane,
                                                             nvmlPciInfo_t *pci) {
  struct far_end end;
  if (!is_device(device) || !pci)
    return NVML_ERROR_INVALID_ARGUMENT;
  if (!lane_leads(device, lane, &end))
    return NVML_ERROR_NOT_SUPPORTED;
  fill_pci(end.pci, pci);
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned lane,
                                                          nvmlPciInfo_v2_t *pci) {
  struct far_end end;
  if (!is_device(device) || !pci)
    return NVML_ERROR_INVALID_ARGUMENT;
  if (!lane_leads(device, lane, &end))
    return NVML_ERROR_NOT_SUPPORTED;
  fill_old_pci(end.pci, pci);
  return NVML_SUCCESS;
}

/* Lanes between GPUs carry copies and atomics between them, those to a CPU its memory. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned lane,
                                                       int which, unsigned *can) {
  enum { P2P = 0, SYSTEM_MEMORY = 1, P2P_ATOMICS = 2, SYSTEM_ATOMICS = 3, BRIDGE = 4, VALID = 5 };
  struct far_end end;
  if (!is_device(device) || !can || which < P2P || which > VALID)
    return NVML_ERROR_INVALID_ARGUMENT;
  if (!lane_leads(device, lane, &end))
    return NVML_ERROR_NOT_SUPPORTED;
  const bool to_cpu = end.kind == FAR_CPU;
  *can = which == VALID || ((which == P2P || which == P2P_ATOMICS) && !to_cpu) ||
         ((which == SYSTEM_MEMORY || which == SYSTEM_ATOMICS) && to_cpu);
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned lane,
                                                             int *type) {
  struct far_end end;
  if (!is_device(device) || !type)
    return NVML_ERROR_INVALID_ARGUMENT;
  if (!lane_leads(device, lane, &end))
    return NVML_ERROR_NOT_SUPPORTED;
  *type = (int)end.kind;
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned lane,
                                                    unsigned *version) {
  struct far_end end;
  if (!is_device(device) || !version)
    return NVML_ERROR_INVALID_ARGUMENT;
  if (!lane_leads(device, lane, &end))
    return NVML_ERROR_NOT_SUPPORTED;
  const int capability = described(device)->capability;
  *version = capability < 70    ? NVML_NVLINK_VERSION_1_0
             : capability < 75  ? NVML_NVLINK_VERSION_2_0
             : capability < 80  ? NVML_NVLINK_VERSION_2_2
             : capability < 86  ? NVML_NVLINK_VERSION_3_0
             : capability < 90  ? NVML_NVLINK_VERSION_3_1
             : capability < 100 ? NVML_NVLINK_VERSION_4_0
                                : NVML_NVLINK_VERSION_5_0;
  return NVML_SUCCESS;
}

/* A field of one lane; from Hopper on, callers ask for these instead of the calls above. */
static nvmlReturn_t lane_field(nvmlDevice_t device, unsigned field, unsigned lane,
                               unsigned *value) {
  int active = 0;
  switch (field) {
  case NVML_FI_DEV_NVLINK_GET_STATE: {
    const nvmlReturn_t result = nvmlDeviceGetNvLinkState(device, lane, &active);
    *value = (unsigned)active;
    return result;
  }
  case NVML_FI_DEV_NVLINK_GET_VERSION:
    return nvmlDeviceGetNvLinkVersion(device, lane, value);
  default:
    return NVML_ERROR_NOT_SUPPORTED;
  }
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int entries,
                                                  nvmlFieldValue_t *values) {
  if (!is_device(device) || entries <= 0 || !values)
    return NVML_ERROR_INVALID_ARGUMENT;
  for (nvmlFieldValue_t *each = values; each < values + entries; ++each) {
    each->value.ullVal = 0;
    each->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
    each->nvmlReturn = lane_field(device, each->fieldId, each->scopeId, &each->value.uiVal);
  }
  return NVML_SUCCESS;
}

#define NVML_UNSUPPORTED(name)                                                                     \
  NVML_EXPORT nvmlReturn_t name(void);                                                             \
  NVML_EXPORT nvmlReturn_t name(void) { return NVML_ERROR_NOT_SUPPORTED; }

NVML_UNSUPPORTED(nvmlDeviceGetGpuFabricInfo)
NVML_UNSUPPORTED(nvmlDeviceGetGpuFabricInfoV)
NVML_UNSUPPORTED(nvmlDeviceGetNumaNodeId)
NVML_UNSUPPORTED(nvmlDeviceGetMigDeviceHandleByIndex)
NVML_UNSUPPORTED(nvmlDeviceGetMaxMigDeviceCount)
NVML_UNSUPPORTED(nvmlDeviceGetUtilizationRates)
NVML_UNSUPPORTED(nvmlDeviceGetComputeRunningProcesses_v3)
