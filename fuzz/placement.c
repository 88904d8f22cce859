/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A placement file: refused with its place and nothing that steers a terminal, or used. */
#include "fuzz.h"

#include "placement.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What toposeat-exec asks of a placement that it has read. */
static void use(const struct tps_placement *placement) {
  for (size_t i = 0; i < placement->seat_count; i++) {
    const struct tps_seat *seat = &placement->seats[i];
    size_t count;
    if (tps_placement_find_local(placement, seat->host, seat->local_rank) == NULL)
      abort();
    free(tps_placement_devices_on(placement, seat->host, &count));
    if (count == 0)
      abort();
  }
}

static void check_refusal(const char *error, const char *path) {
  struct tps_text shown;
  tps_text_init(&shown);
  tps_text_add_escaped(&shown, error);
  for (size_t i = 0; i < shown.length; i++)
    if ((unsigned char)shown.data[i] < 0x20 || shown.data[i] == 0x7f)
      abort();
  if (strncmp(error, path, strlen(path)) != 0) /* nothing is refused without its place */
    abort();
  tps_text_free(&shown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static int file = -1;
  char path[64], error[512] = "";
  struct tps_placement placement;
  if (file < 0)
    file = memfd_create("placement", MFD_CLOEXEC);
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != (ssize_t)size)
    abort();
  if (tps_placement_load(&placement, path, error, sizeof error)) {
    use(&placement);
    tps_placement_free(&placement);
  } else {
    check_refusal(error, path);
  }
  return 0;
}
