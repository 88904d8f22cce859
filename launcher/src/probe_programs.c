/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "probe_programs.h"

#include "program.h"

#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static void (*tell)(const char *program);

/* ---- which programs will not speak ---- */

static bool has(char *const *environment, const char *name, const char *part) {
  size_t length = strlen(name);
  for (char *const *each = environment; each != NULL && *each != NULL; each++)
    if (strncmp(*each, name, length) == 0 && (*each)[length] == '=')
      return strstr(*each + length + 1, part) != NULL;
  return false;
}

static bool will_speak(char *const *environment) {
  return has(environment, "LD_PRELOAD", "libtoposeat_probe.so") &&
         has(environment, "TOPOSEAT_RANK", "") &&
         (has(environment, "TOPOSEAT_HOME", "") || has(environment, "TOPOSEAT_REPORT_DIR", ""));
}

/* What is not found is not started: shells try one folder after the other. */
static void look(const char *program, char *const *environment) {
  char path[PATH_MAX];
  int cause = errno;
  if (tell != NULL && program != NULL && !will_speak(environment) &&
      tps_find_program(program, path, sizeof path) && !tps_is_static(program))
    tell(program);
  errno = cause;
}

/* ---- the functions that start them ---- */

static struct {
  int (*execve)(const char *, char *const *, char *const *);
  int (*execvpe)(const char *, char *const *, char *const *);
  int (*fexecve)(int, char *const *, char *const *);
  int (*spawn)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
               char *const *, char *const *);
  int (*spawnp)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                const posix_spawnattr_t *, char *const *, char *const *);
  int (*system)(const char *);
  FILE *(*popen)(const char *, const char *);
} next;

static void load_next(const char *name, void *target) {
  void *symbol = dlsym(RTLD_NEXT, name);
  memcpy(target, (const void *)&symbol, sizeof symbol);
}

static void load_all(void) {
  if (next.execve != NULL)
    return;
  load_next("execvpe", (void *)&next.execvpe);
  load_next("fexecve", (void *)&next.fexecve);
  load_next("posix_spawn", (void *)&next.spawn);
  load_next("posix_spawnp", (void *)&next.spawnp);
  load_next("system", (void *)&next.system);
  load_next("popen", (void *)&next.popen);
  load_next("execve", (void *)&next.execve);
}

void tps_probe_watch_programs(void (*unheard)(const char *program)) {
  load_all();
  tell = unheard;
}

EXPORTED int execve(const char *path, char *const words[], char *const environment[]) {
  load_all();
  look(path, environment);
  return next.execve(path, words, environment);
}

EXPORTED int execv(const char *path, char *const words[]) { return execve(path, words, environ); }

EXPORTED int execvpe(const char *file, char *const words[], char *const environment[]) {
  load_all();
  look(file, environment);
  return next.execvpe(file, words, environment);
}

EXPORTED int execvp(const char *file, char *const words[]) { return execvpe(file, words, environ); }

EXPORTED int fexecve(int file, char *const words[], char *const environment[]) {
  char link[64], path[PATH_MAX] = "";
  load_all();
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  if (readlink(link, path, sizeof path - 1) > 0)
    look(path, environment);
  return next.fexecve(file, words, environment);
}

/* Without a place on the heap: a signal's handler may call these. */
#define COPY_WORDS(words, first, list)                                                             \
  do {                                                                                             \
    size_t count = 1;                                                                              \
    va_list counting;                                                                              \
    va_copy(counting, list);                                                                       \
    while (va_arg(counting, char *) != NULL)                                                       \
      count++;                                                                                     \
    va_end(counting);                                                                              \
    (words) = alloca((count + 1) * sizeof *(words));                                               \
    memcpy((void *)(words), (const void *)&(first), sizeof *(words));                              \
    for (size_t i = 1; i <= count; i++)                                                            \
      (words)[i] = va_arg(list, char *);                                                           \
  } while (0)

EXPORTED int execl(const char *path, const char *first, ...) {
  char **words;
  va_list list;
  va_start(list, first);
  COPY_WORDS(words, first, list);
  va_end(list);
  return execve(path, words, environ);
}

EXPORTED int execlp(const char *file, const char *first, ...) {
  char **words;
  va_list list;
  va_start(list, first);
  COPY_WORDS(words, first, list);
  va_end(list);
  return execvpe(file, words, environ);
}

EXPORTED int execle(const char *path, const char *first, ...) {
  char **words;
  va_list list;
  va_start(list, first);
  COPY_WORDS(words, first, list);
  char *const *environment = va_arg(list, char *const *);
  va_end(list);
  return execve(path, words, environment);
}

EXPORTED int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                         const posix_spawnattr_t *attributes, char *const words[],
                         char *const environment[]) {
  load_all();
  look(path, environment);
  return next.spawn(pid, path, actions, attributes, words, environment);
}

EXPORTED int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                          const posix_spawnattr_t *attributes, char *const words[],
                          char *const environment[]) {
  load_all();
  look(file, environment);
  return next.spawnp(pid, file, actions, attributes, words, environment);
}

EXPORTED int system(const char *command) {
  load_all();
  if (command != NULL)
    look("/bin/sh", environ);
  return next.system(command);
}

EXPORTED FILE *popen(const char *command, const char *mode) {
  load_all();
  look("/bin/sh", environ);
  return next.popen(command, mode);
}
