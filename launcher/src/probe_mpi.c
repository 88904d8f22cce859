/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "probe_mpi.h"

#include <stdio.h>
#include <string.h>

enum { MAX_VERSION = 16384, MAX_SEGMENTS = 8 }; /* MPI_MAX_LIBRARY_VERSION_STRING is 8192 at most */

/* Of a line "BEGIN-END rw-s OFFSET DEVICE INODE PATH": "DEVICE:INODE". */
static bool read_segment(char *line, char *segment, size_t size) {
  if (strstr(line, "/dev/shm/mpich_sh") == NULL)
    return false;
  char *rest = NULL;
  const char *device = NULL, *inode = NULL;
  char *word = strtok_r(line, " ", &rest);
  for (int i = 0; word != NULL && i < 5; i++, word = strtok_r(NULL, " ", &rest)) {
    device = i == 3 ? word : device;
    inode = i == 4 ? word : inode;
  }
  if (inode == NULL)
    return false;
  snprintf(segment, size, "%s:%s", device, inode);
  return true;
}

static void add_segments(struct tps_report *report) {
  FILE *maps = fopen("/proc/self/maps", "re");
  if (maps == NULL)
    return;
  char line[512], segment[64], last[64] = "";
  int count = 0;
  while (count < MAX_SEGMENTS && fgets(line, sizeof line, maps) != NULL) {
    if (!read_segment(line, segment, sizeof segment) || strcmp(segment, last) == 0)
      continue;
    tps_report_add(report, "mpich_segment", segment);
    memcpy(last, segment, sizeof last);
    count++;
  }
  fclose(maps);
}

void tps_probe_add_mpi(struct tps_report *report, int (*library_version)(char *, int *)) {
  static char version[MAX_VERSION];
  int length = 0;
  if (library_version == NULL || library_version(version, &length) != 0)
    return;
  version[sizeof version - 1] = '\0';
  version[strcspn(version, "\n")] = '\0';
  tps_report_add(report, "mpi", version);
  if (strncmp(version, "MPICH Version:", strlen("MPICH Version:")) == 0)
    add_segments(report);
}
