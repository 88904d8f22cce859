/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The part of NVML's binary interface that the stand-in implements: numbers and layouts only. */
#ifndef TOPOSEAT_NVML_ABI_H
#define TOPOSEAT_NVML_ABI_H

typedef int nvmlReturn_t;
enum {
  NVML_SUCCESS = 0,
  NVML_ERROR_UNINITIALIZED = 1,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_DRIVER_NOT_LOADED = 9,
};

typedef struct nvmlDevice_st *nvmlDevice_t;

typedef struct {
  char busIdLegacy[16];
  unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
  char busId[32];
} nvmlPciInfo_t;

/* What the calls of the first two versions fill; after it come reserved words. */
typedef struct {
  char busId[16];
  unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
} nvmlPciInfo_v2_t;

typedef struct {
  unsigned long long total, free, used;
} nvmlMemory_t;

enum {
  NVML_NVLINK_VERSION_1_0 = 1,
  NVML_NVLINK_VERSION_2_0 = 2,
  NVML_NVLINK_VERSION_2_2 = 3,
  NVML_NVLINK_VERSION_3_0 = 4,
  NVML_NVLINK_VERSION_3_1 = 5,
  NVML_NVLINK_VERSION_4_0 = 6,
  NVML_NVLINK_VERSION_5_0 = 7,
};

enum { NVML_FI_DEV_NVLINK_GET_STATE = 165, NVML_FI_DEV_NVLINK_GET_VERSION = 166 };
enum { NVML_VALUE_TYPE_UNSIGNED_INT = 1 };

typedef struct {
  unsigned fieldId, scopeId; /* the scope of a lane's field is the lane */
  long long timestamp, latencyUsec;
  int valueType;
  nvmlReturn_t nvmlReturn;
  union {
    double dVal;
    unsigned uiVal;
    unsigned long long ullVal;
  } value;
} nvmlFieldValue_t;

#endif
