/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A stand-in for libcuda.so.1 with one device allocation, whose address range the program declares.
 * It answers the driver calls that the interposer asks, and counts them.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

static uintptr_t first, last;
static int questions;

void fake_cuda_declare(void *start, size_t size) {
  first = (uintptr_t)start;
  last = first + size;
}

int fake_cuda_questions(void) { return questions; }

static int on_device(uintptr_t pointer) { return pointer >= first && pointer < last; }

int cuPointerGetAttribute(void *answer, int attribute, uintptr_t pointer) {
  questions += 1;
  if (!on_device(pointer))
    return 1; /* CUDA_ERROR_INVALID_VALUE */
  *(unsigned *)answer = attribute == 2 ? 2u /* CU_MEMORYTYPE_DEVICE */ : 1u /* ordinal */;
  return 0;
}

int cuMemGetAddressRange_v2(uintptr_t *start, size_t *size, uintptr_t pointer) {
  if (!on_device(pointer))
    return 1;
  *start = first;
  *size = last - first;
  return 0;
}

int cuDeviceGetPCIBusId(char *text, int length, int device) {
  snprintf(text, (size_t)length, "0000:%02X:00.0", 0x40 + device);
  return 0;
}

int cuDeviceGetCount(int *count) {
  *count = 4;
  return 0;
}
