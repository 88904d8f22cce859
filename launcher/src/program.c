/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "program.h"

#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool tps_find_program(const char *program, char *path, size_t size) {
  snprintf(path, size, "%s", program);
  if (strchr(program, '/') != NULL)
    return access(program, X_OK) == 0;
  const char *folders = getenv("PATH");
  if (folders == NULL)
    folders = "/bin:/usr/bin";
  for (const char *colon = folders; colon != NULL; folders = colon + 1) {
    colon = strchr(folders, ':');
    int length = (int)(colon == NULL ? strlen(folders) : (size_t)(colon - folders));
    snprintf(path, size, "%.*s%s%s", length, folders, length > 0 ? "/" : "", program);
    if (access(path, X_OK) == 0)
      return true;
    if (colon == NULL)
      break;
  }
  return false;
}

bool tps_is_static(const char *program) {
  char path[PATH_MAX];
  ElfW(Ehdr) head;
  ElfW(Phdr) part;
  if (!tps_find_program(program, path, sizeof path))
    return false;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return false;
  bool is_program = pread(file, &head, sizeof head, 0) == (ssize_t)sizeof head &&
                    memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_phentsize == sizeof part;
  bool loads = !is_program;
  for (unsigned i = 0; !loads && i < head.e_phnum; i++) {
    off_t at = (off_t)(head.e_phoff + i * sizeof part);
    loads = pread(file, &part, sizeof part, at) != (ssize_t)sizeof part || part.p_type == PT_INTERP;
  }
  close(file);
  return !loads;
}
