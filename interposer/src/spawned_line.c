/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What MPI_Comm_spawn starts gets its environment from the launcher, not from the process that
 * asks: the recorder would stay behind. So toposeat-exec is put in front of the command, as it is
 * in front of the ranks themselves, with the library and the variables of this process.
 *
 * A command is spawned as it is where it might become another one that way: it cannot be found
 * here, or an info key says where to look for it.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interposer.h"

#define PREFIX "TOPOSEAT_PROFILE_"
#define EXEC_VARIABLE PREFIX "EXEC" /* the path of toposeat-exec */
#define KEY_VARIABLE PREFIX "SPAWN" /* the key of the world that is spawned */

uint64_t tps__spawned_key(void) {
  const char *text = getenv(KEY_VARIABLE);
  return text != NULL ? strtoull(text, NULL, 16) : 0;
}

static bool is_in_path(const char *command) {
  const char *path = getenv("PATH");
  char file[PATH_MAX];
  while (path != NULL && *path != '\0') {
    size_t length = strcspn(path, ":");
    int written = snprintf(file, sizeof file, "%.*s/%s", (int)length, path, command);
    if (length > 0 && written > 0 && (size_t)written < sizeof file && access(file, X_OK) == 0)
      return true;
    path += length + (path[length] == ':');
  }
  return false;
}

static bool has_key(abi_handle info, const char *key) {
  char value[2];
  int there = 0;
  return info != tps__info_null() && tps__mpi.Info_get != NULL &&
         tps__mpi.Info_get(info, key, 1, value, &there) == 0 && there;
}

static bool is_found_here(const char *command, abi_handle info) {
  if (strchr(command, '/') != NULL)
    return access(command, X_OK) == 0;
  return is_in_path(command) && !has_key(info, "path");
}

/* Words of the new line, in two passes: the first one counts, the second one writes. */
struct words {
  char **list; /* NULL: count */
  char *text;
  size_t count;
  size_t bytes;
};

static void add_parts(struct words *words, const char *first, const char *second) {
  size_t length = strlen(first) + strlen(second) + 1;
  if (words->list != NULL) {
    words->list[words->count] = words->text + words->bytes;
    snprintf(words->text + words->bytes, length, "%s%s", first, second);
  }
  words->count += 1;
  words->bytes += length;
}

static void add(struct words *words, const char *word) { add_parts(words, word, ""); }

static void add_all(struct words *words, const char *library, const char *key, const char *command,
                    char *const *arguments) {
  add(words, "--preload");
  add(words, library);
  for (char *const *each = environ; *each != NULL; ++each) {
    if (strncmp(*each, PREFIX, strlen(PREFIX)) != 0 ||
        strncmp(*each, KEY_VARIABLE "=", strlen(KEY_VARIABLE "=")) == 0)
      continue;
    add(words, "-E");
    add(words, *each);
  }
  add(words, "-E");
  add_parts(words, KEY_VARIABLE "=", key);
  add(words, "--");
  add(words, command);
  for (; arguments != NULL && *arguments != NULL; ++arguments)
    add(words, *arguments);
}

void tps__spawned_line(struct tps_spawned_line *line, const char *command, char **arguments,
                       abi_handle info, uint64_t key) {
  *line = (struct tps_spawned_line){.command = command, .arguments = arguments};
  const char *launcher = getenv(EXEC_VARIABLE);
  Dl_info self;
  if (launcher == NULL || access(launcher, X_OK) != 0 || command == NULL ||
      !is_found_here(command, info) || dladdr(&tps__process, &self) == 0)
    return;
  char hexadecimal[17];
  snprintf(hexadecimal, sizeof hexadecimal, "%llx", (unsigned long long)key);
  struct words words = {.list = NULL};
  add_all(&words, self.dli_fname, hexadecimal, command, arguments);
  size_t list_bytes = (words.count + 1) * sizeof(char *);
  line->memory = malloc(list_bytes + words.bytes);
  if (line->memory == NULL)
    return;
  words = (struct words){.list = (char **)(void *)line->memory, .text = line->memory + list_bytes};
  add_all(&words, self.dli_fname, hexadecimal, command, arguments);
  words.list[words.count] = NULL;
  line->command = launcher;
  line->arguments = words.list;
}
