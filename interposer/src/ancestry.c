/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A rank may start an MPI job of its own, whose ranks inherit LD_PRELOAD and the folder for
 * records. One of their ancestors is a rank of the observed job: it has its record mapped, which
 * /proc/PID/maps shows. That is how they are told apart.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interposer.h"

#define MAX_DEPTH 64

static FILE *open_proc(long pid, const char *name) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%ld/%s", pid, name);
  return fopen(path, "re");
}

/* 0 if it cannot be read. */
static long parent_of(long pid) {
  char line[1024];
  FILE *file = open_proc(pid, "stat");
  if (file == NULL)
    return 0;
  size_t length = fread(line, 1, sizeof line - 1, file);
  fclose(file);
  line[length] = '\0';
  /* PID (NAME) STATE PPID ...: the name may hold blanks and parentheses. */
  const char *name_end = strrchr(line, ')');
  return name_end != NULL && strlen(name_end) > 4 ? strtol(name_end + 4, NULL, 10) : 0;
}

static bool maps_record(long pid, const char *prefix) {
  FILE *file = open_proc(pid, "maps");
  if (file == NULL)
    return false;
  char *line = NULL;
  size_t size = 0;
  bool found = false;
  while (!found && getline(&line, &size, file) > 0) {
    const char *path = strchr(line, '/');
    found = path != NULL && strncmp(path, prefix, strlen(prefix)) == 0 &&
            strstr(path, TPS_RECORD_SUFFIX) != NULL;
  }
  free(line);
  fclose(file);
  return found;
}

bool tps__is_inside_rank(const char *directory) {
  char folder[PATH_MAX];
  char prefix[PATH_MAX + 8];
  if (realpath(directory, folder) == NULL)
    return false;
  snprintf(prefix, sizeof prefix, "%s/rank-", folder);
  long pid = (long)getppid();
  for (int depth = 0; pid > 1 && depth < MAX_DEPTH; ++depth) {
    if (maps_record(pid, prefix))
      return true;
    pid = parent_of(pid);
  }
  return false;
}
