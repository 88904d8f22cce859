/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "probe_mpi.h"

#include "loaded.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MAX_VERSION = 16384, MAX_SEGMENTS = 8 }; /* MPI_MAX_LIBRARY_VERSION_STRING is 8192 at most */

void *tps_probe_find_in_libmpi(const char *symbol) {
  static const char *const prefixes[] = {"libmpi", NULL};
  void *library = tps__library_with(prefixes, symbol);
  return library != NULL ? dlsym(library, symbol) : NULL;
}

void *tps_probe_find_mpi(const char *symbol) {
  void *found = dlsym(RTLD_DEFAULT, symbol);
  return found != NULL ? found : tps_probe_find_in_libmpi(symbol);
}

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

/* PyTorch and JAX make groups of processes themselves: their MPI may rightly know one rank. */
static int makes_groups(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)size;
  (void)unused;
  return info->dlpi_name != NULL && (strstr(info->dlpi_name, "libtorch") != NULL ||
                                     strstr(info->dlpi_name, "xla_extension") != NULL);
}

static bool is_initialized(void) {
  void *symbol = tps_probe_find_mpi("PMPI_Initialized");
  int (*initialized)(int *), flag = 0;
  memcpy((void *)&initialized, (const void *)&symbol, sizeof initialized);
  return initialized != NULL && initialized(&flag) == 0 && flag;
}

/* Handles are integers in MPICH's own ABI, pointers in Open MPI's and in the standard one. */
static void add_world(struct tps_report *report, bool is_mpich) {
  enum { MPICH_COMM_WORLD = 0x44000000, STANDARD_COMM_WORLD = 0x101 };
  void *symbol = tps_probe_find_mpi("PMPI_Comm_size");
  void *world = tps_probe_find_mpi("ompi_mpi_comm_world");
  int (*size_of_pointer)(void *, int *), (*size_of_integer)(int, int *), size = 0, error = 1;
  memcpy((void *)&size_of_pointer, (const void *)&symbol, sizeof size_of_pointer);
  memcpy((void *)&size_of_integer, (const void *)&symbol, sizeof size_of_integer);
  Dl_info object;
  if (symbol == NULL || dladdr(symbol, &object) == 0 || !is_initialized() ||
      dl_iterate_phdr(makes_groups, NULL) != 0)
    return;
  if (world == NULL && strstr(object.dli_fname, "libmpi_abi") != NULL)
    world = (void *)(uintptr_t)STANDARD_COMM_WORLD; /* NOLINT(performance-no-int-to-ptr) */
  if (world != NULL)
    error = size_of_pointer(world, &size);
  else if (is_mpich)
    error = size_of_integer(MPICH_COMM_WORLD, &size);
  if (error == 0)
    tps_report_add_number(report, "world", size);
}

void tps_probe_add_mpi(struct tps_report *report) {
  static char version[MAX_VERSION];
  void *symbol = tps_probe_find_mpi("PMPI_Get_library_version");
  int (*library_version)(char *, int *), length = 0;
  memcpy((void *)&library_version, (const void *)&symbol, sizeof library_version);
  if (library_version == NULL || library_version(version, &length) != 0)
    return;
  version[sizeof version - 1] = '\0';
  version[strcspn(version, "\n")] = '\0';
  tps_report_add(report, "mpi", version);
  bool is_mpich = strncmp(version, "MPICH Version:", strlen("MPICH Version:")) == 0;
  if (is_mpich)
    add_segments(report);
  add_world(report, is_mpich || strncmp(version, "Intel", strlen("Intel")) == 0);
}
