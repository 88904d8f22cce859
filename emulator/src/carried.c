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

enum { LINE_END = ';' }; /* in the variable, which has one line */

/* A lock on the folder until this process ends: without one `toposeat` sweeps it away. */
static bool lock_folder(const char *folder) {
  const int at = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (at < 0)
    return false;
  struct stat status;
  const bool ours = fstat(at, &status) == 0 && status.st_uid == geteuid();
  if (ours) /* `toposeat emulate` itself locks it on its own node */
    (void)flock(at, LOCK_SH | LOCK_NB);
  else
    (void)close(at);
  return ours;
}

static bool write_text(const char *path, const char *text) {
  const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
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
    (void)unlink(file);
    (void)rmdir(fresh);
    errno = cause;
  }
  return made || errno == EEXIST || errno == ENOTEMPTY;
}

void emu_unpack_machine(const char *path) {
  const char *text = getenv("TOPOSEAT_EMULATED_TEXT");
  char folder[PATH_MAX];
  if (!text || !*text || snprintf(folder, sizeof folder, "%s", path) >= (int)sizeof folder)
    return;
  char *slash = strrchr(folder, '/');
  if (!slash || slash == folder || !strchr(folder + 1, '/'))
    return;
  *slash = '\0';
  const bool there = access(path, R_OK) == 0;
  if (!there && !make_folder(folder, slash + 1, text))
    emu_say("%s: cannot make it from TOPOSEAT_EMULATED_TEXT: %s", path, strerror(errno));
  else if (!lock_folder(folder))
    emu_say("%s belongs to another user", folder);
}
