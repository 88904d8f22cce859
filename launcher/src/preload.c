/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload.h"

#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t tps_preload_add(struct tps_environment *environment, const char *library,
                       struct tps_messages *messages) {
  /* ld.so splits the variable at both and knows no quoting (ld.so(8)). */
  if (strpbrk(library, " :") != NULL) {
    tps_warn(messages, "cannot preload %s: its path has a space or a colon", library);
    return 0;
  }
  if (strchr(library, '/') != NULL && access(library, R_OK) != 0) {
    tps_warn(messages, "cannot preload %s: it does not exist or cannot be read", library);
    return 0;
  }
  const char *inherited = tps_environment_get(environment, "LD_PRELOAD");
  struct tps_text value;
  tps_text_init(&value);
  tps_text_add(&value, "%s", library);
  if (inherited != NULL && *inherited != '\0')
    tps_text_add(&value, ":%s", inherited);
  tps_environment_set(environment, "LD_PRELOAD", value.data);
  tps_text_free(&value);
  return 1;
}

/* Of the options of env(1) those whose value is the next word. */
static bool takes_next(const char *word) {
  static const char *const options[] = {"-u", "--unset", "-C", "--chdir", "-S", "--split-string",
                                        "-a", "--argv0", NULL};
  for (const char *const *each = options; *each != NULL; each++)
    if (strcmp(word, *each) == 0)
      return true;
  return false;
}

void tps_preload_chain(char **program, size_t count) {
  static const char name[] = "LD_PRELOAD=";
  const char *own = getenv("LD_PRELOAD"), *slash = strrchr(program[0], '/');
  if (own == NULL || count == 0 || strcmp(slash == NULL ? program[0] : slash + 1, "env") != 0)
    return;
  size_t length = strcspn(own, ":");
  for (; count > 1 && own[length] == ':'; count--)
    length += 1 + strcspn(own + length + 1, ":");
  for (char **word = program + 1; *word != NULL; word++) {
    const char *equals = strchr(*word, '=');
    if (takes_next(*word) && word[1] != NULL) {
      word++;
    } else if (strncmp(*word, name, sizeof name - 1) == 0 && equals[1] != '\0') {
      struct tps_text chained;
      tps_text_init(&chained);
      tps_text_add(&chained, "%s%.*s:%s", name, (int)length, own, equals + 1);
      *word = chained.data; /* as long as the process lives */
    } else if (**word != '-' && equals == NULL) {
      return;
    }
  }
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
