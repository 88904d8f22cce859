/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload.h"

#include <glob.h>
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

/* Where the probe lies, from the folder of toposeat-exec: in the package, in the archive without
 * Python, and, where pip put a copy on PATH, below a prefix or a folder of `pip install --target`.
 */
static const char *const probe_places[] = {
    "/../lib/libtoposeat_probe.so",
    "/libtoposeat_probe.so",
    "/../lib*/python3*/*-packages/toposeat/_native/lib/libtoposeat_probe.so",
    "/../toposeat/_native/lib/libtoposeat_probe.so",
};

char *tps_preload_find_probe(void) {
  char path[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0)
    return NULL;
  path[length] = '\0';
  char *slash = strrchr(path, '/');
  if (slash == NULL)
    return NULL;
  *slash = '\0';
  char *found = NULL;
  for (size_t i = 0; i < sizeof probe_places / sizeof *probe_places && found == NULL; i++) {
    struct tps_text pattern;
    tps_text_init(&pattern);
    for (const char *letter = path; *letter != '\0'; letter++)
      tps_text_add(&pattern, strchr("*?[\\", *letter) != NULL ? "\\%c" : "%c", *letter);
    tps_text_add(&pattern, "%s", probe_places[i]);
    glob_t matches = {0};
    if (glob(pattern.data, 0, NULL, &matches) == 0 && access(matches.gl_pathv[0], R_OK) == 0)
      found = strdup(matches.gl_pathv[0]);
    globfree(&matches);
    tps_text_free(&pattern);
  }
  return found;
}
