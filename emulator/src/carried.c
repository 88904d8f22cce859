/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "carried.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "say.h"
#include "trust.h"

enum { LINE_END = ';' }; /* in the variable, which has one line */

static int folder_at = -1; /* locked until this process ends */
static char folder_path[PATH_MAX];
static char file_path[PATH_MAX];

/* A lock on the folder until this process ends: without one `toposeat` sweeps it away. */
static bool lock_folder(const char *folder) {
  const int at = tps_own_folder(folder);
  if (at < 0)
    return false;
  (void)flock(at, LOCK_SH | LOCK_NB); /* `toposeat emulate` itself locks it on its own node */
  folder_at = at;
  return true;
}

/* The last process of a node takes the folder along. */
__attribute__((destructor)) static void remove_folder(void) {
  char state[PATH_MAX + sizeof ".state"];
  if (folder_at < 0 || flock(folder_at, LOCK_EX | LOCK_NB) != 0)
    return;
  (void)snprintf(state, sizeof state, "%s.state", file_path);
  (void)unlink(state);
  (void)unlink(file_path);
  (void)rmdir(folder_path);
}

static bool write_text(const char *path, const char *text) {
  const int file = tps_make_mark(AT_FDCWD, path);
  FILE *stream = file < 0 ? NULL : fdopen(file, "w");
  if (!stream) {
    if (file >= 0)
      (void)close(file);
    return false;
  }
  for (; *text; ++text)
    (void)fputc(*text == LINE_END ? '\n' : *text, stream);
  const bool written = !ferror(stream);
  return fclose(stream) == 0 && written;
}

/* The folder appears whole, under a lock, or not at all: the ranks of a node are all at it. */
static bool make_folder(const char *folder, const char *name, const char *text) {
  char fresh[PATH_MAX];
  char file[PATH_MAX];
  const char *slash = strrchr(folder, '/');
  if (snprintf(fresh, sizeof fresh, "%.*s/.emulated-XXXXXX", (int)(slash - folder), folder) >=
          (int)sizeof fresh ||
      !mkdtemp(fresh))
    return false;
  const bool made = snprintf(file, sizeof file, "%s/%s", fresh, name) < (int)sizeof file &&
                    write_text(file, text) && lock_folder(fresh) && rename(fresh, folder) == 0;
  if (!made) {
    const int cause = errno;
    if (folder_at >= 0)
      (void)close(folder_at);
    folder_at = -1;
    (void)unlink(file);
    (void)rmdir(fresh);
    errno = cause;
  }
  return made || errno == EEXIST || errno == ENOTEMPTY;
}

void emu_unpack_machine(const char *path) {
  const char *text = getenv("TOPOSEAT_EMULATED_TEXT");
  const char *slash = strrchr(path, '/');
  if (!text || !*text || !slash || slash == path || strlen(path) >= sizeof file_path)
    return;
  (void)snprintf(file_path, sizeof file_path, "%s", path);
  (void)snprintf(folder_path, sizeof folder_path, "%.*s", (int)(slash - path), path);
  if (access(path, R_OK) != 0 && !make_folder(folder_path, slash + 1, text))
    emu_say("%s: cannot make it from TOPOSEAT_EMULATED_TEXT: %s", path, strerror(errno));
  else if (folder_at < 0 && !lock_folder(folder_path))
    emu_say("%s is not this user's alone", folder_path);
}
