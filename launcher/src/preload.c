/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void tps_preload_add(struct tps_environment *environment, const char *library,
                     struct tps_messages *messages) {
  /* ld.so splits the variable at both and knows no quoting (ld.so(8)). */
  if (strpbrk(library, " :") != NULL) {
    tps_warn(messages, "cannot preload %s: its path has a space or a colon", library);
    return;
  }
  if (strchr(library, '/') != NULL && access(library, R_OK) != 0) {
    tps_warn(messages, "cannot preload %s: it does not exist or cannot be read", library);
    return;
  }
  const char *inherited = tps_environment_get(environment, "LD_PRELOAD");
  struct tps_text value;
  tps_text_init(&value);
  tps_text_add(&value, "%s", library);
  if (inherited != NULL && *inherited != '\0')
    tps_text_add(&value, ":%s", inherited);
  tps_environment_set(environment, "LD_PRELOAD", value.data);
  tps_text_free(&value);
}

char *tps_preload_find_probe(void) {
  char path[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0)
    return NULL;
  path[length] = '\0';
  static const char *const places[] = {"/../lib/libtoposeat_probe.so", "/libtoposeat_probe.so"};
  char *slash = strrchr(path, '/');
  if (slash == NULL)
    return NULL;
  *slash = '\0';
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    struct tps_text candidate;
    tps_text_init(&candidate);
    tps_text_add(&candidate, "%s%s", path, places[i]);
    if (access(candidate.data, R_OK) == 0)
      return candidate.data;
    tps_text_free(&candidate);
  }
  return NULL;
}
