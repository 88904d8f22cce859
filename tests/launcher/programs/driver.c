/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Answers as the driver would: device i has PCI bus id 00000000:1i:00.0; ACTIVE lists those with a
 * primary context, CURRENT is the calling thread's; RESULT is the error of every call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int number(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text == NULL ? otherwise : atoi(text);
}
static int gone; /* the CUDA runtime shuts the driver down at exit */
static int result(void) { return gone ? 4 : number("FAKE_RESULT", 0); }
static void shut_down(void) { gone = 1; }
void fake_runtime(void) { atexit(shut_down); }
int cuDeviceGetCount(int *count) {
  *count = 4;
  return result();
}
int cuDeviceGet(int *device, int ordinal) {
  *device = 100 + ordinal;
  return result();
}
int cuCtxGetDevice(int *device) {
  *device = 100 + number("FAKE_CURRENT", -1);
  return *device < 100 ? 201 : result();
}
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
  const char *list = getenv("FAKE_ACTIVE");
  *flags = 0;
  *active = list != NULL && strchr(list, '0' + device - 100) != NULL;
  return result();
}
int cuDeviceGetPCIBusId(char *text, int size, int device) {
  snprintf(text, (size_t)size, "00000000:1%d:00.0", device - 100);
  return result();
}
int cuInit(unsigned flags) {
  (void)flags;
  abort(); /* the probe must never initialise */
}
