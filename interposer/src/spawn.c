/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Processes at the other side of a new communicator: spawned, accepted, connected or joined. */
#include "actions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The key of the next connection that the members of `comm` make together; 0 if unknown. */
static uint64_t next_key(tps_word comm) {
  const struct tps_comm *over = tps__comm_of(comm, false);
  if (over == NULL)
    return 0;
  uint64_t mixed = over->peers->hash ^ over->peers->connections++;
  for (const char *c = tps__process.header->world; *c != '\0'; ++c) /* other jobs have others */
    mixed = (mixed ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
  return (mixed * UINT64_C(0x9e3779b97f4a7c15)) | 2u; /* neither 0 nor 1 */
}

/* The commands are there at the root only. */
static bool is_root(int root, tps_word comm) {
  const struct tps_comm *over = tps__comm_of(comm, false);
  return over != NULL && over->my_rank == root;
}

/* A path's end names the program. */
static const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

/* "a : b", each program once. */
static void name_programs(char *name, size_t size, int count, char *const *commands) {
  size_t used = 0;
  name[0] = '\0';
  for (int i = 0; i < count; ++i) {
    if (commands[i] == NULL || (i > 0 && strcmp(commands[i], commands[i - 1]) == 0))
      continue;
    int more =
        snprintf(name + used, size - used, "%s%s", used > 0 ? " : " : "", file_name(commands[i]));
    if (more < 0 || (size_t)more >= size - used)
      return;
    used += (size_t)more;
  }
}

static void add_spawned(int count, char *const *commands, uint64_t key, abi_handle made) {
  struct tps_world world;
  abi_handle group;
  int size = 0;
  if (made == tps__comm_null() || !tps__remote_group(made, &group, &size))
    return;
  name_programs(world.name, sizeof world.name, count, commands);
  tps__lock();
  tps__world_add(group, size, TPS_WORLD_SPAWNED, key, world.name);
  tps__unlock();
}

TPS_EXPORT int MPI_Comm_spawn(const char *command, char **arguments, int processes, tps_word info,
                              int root, tps_word comm, abi_handle *made, int *codes);
TPS_EXPORT int PMPI_Comm_spawn(const char *command, char **arguments, int processes, tps_word info,
                               int root, tps_word comm, abi_handle *made, int *codes)
    __attribute__((alias("MPI_Comm_spawn")));
TPS_EXPORT int MPI_Comm_spawn_multiple(int count, char **commands, char ***arguments,
                                       const int *processes, const abi_handle *infos, int root,
                                       tps_word comm, abi_handle *made, int *codes);
TPS_EXPORT int PMPI_Comm_spawn_multiple(int count, char **commands, char ***arguments,
                                        const int *processes, const abi_handle *infos, int root,
                                        tps_word comm, abi_handle *made, int *codes)
    __attribute__((alias("MPI_Comm_spawn_multiple")));

int MPI_Comm_spawn(const char *command, char **arguments, int processes, tps_word info, int root,
                   tps_word comm, abi_handle *made, int *codes) {
  typedef int real_call(const char *, char **, int, tps_word, int, tps_word, abi_handle *, int *);
  static tps_function *found;
  real_call *real = (real_call *)tps__real(&found, "PMPI_Comm_spawn");
  if (real == NULL)
    return ABI_ERR_UNSUPPORTED_OPERATION;
  if (!tps__enter())
    return real(command, arguments, processes, info, root, comm, made, codes);
  struct tps_spawned_line line = {.command = command, .arguments = arguments};
  uint64_t key = next_key(comm);
  bool here = is_root(root, comm);
  if (here)
    tps__spawned_line(&line, command, arguments, ABI_HANDLE(info), key);
  uint64_t start = tps__start();
  int code = real(line.command, line.arguments, processes, info, root, comm, made, codes);
  uint64_t spent = tps__spent(start);
  free(line.memory);
  if (code == 0)
    add_spawned(here, (char *[]){(char *)(uintptr_t)command}, key, *made);
  tps__leave(TPS_TIME_OTHER, false, spent);
  return code;
}

/* The lines of MPI_Comm_spawn_multiple at its root; the same pointers where there is no memory. */
struct lines {
  int count;
  struct tps_spawned_line *lines;
  char **commands;
  char ***arguments;
};

static void make_lines(struct lines *made, const abi_handle *infos, uint64_t key) {
  size_t count = made->count > 0 ? (size_t)made->count : 0;
  char **commands = (char **)calloc(count, sizeof *commands);
  char ***arguments = (char ***)calloc(count, sizeof *arguments);
  made->lines = calloc(count, sizeof *made->lines);
  if (commands == NULL || arguments == NULL || made->lines == NULL) {
    free((void *)commands);
    free((void *)arguments);
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    char **own = made->arguments != NULL ? made->arguments[i] : NULL; /* MPI_ARGVS_NULL */
    tps__spawned_line(&made->lines[i], made->commands[i], own, infos[i], key);
    commands[i] = (char *)(uintptr_t)made->lines[i].command;
    arguments[i] = made->lines[i].arguments;
  }
  made->commands = commands;
  made->arguments = arguments;
}

static void free_lines(const struct lines *made, char **commands) {
  for (int i = 0; made->lines != NULL && i < made->count; ++i)
    free(made->lines[i].memory);
  free(made->lines);
  if (made->commands != commands) {
    free((void *)made->commands);
    free((void *)made->arguments);
  }
}

int MPI_Comm_spawn_multiple(int count, char **commands, char ***arguments, const int *processes,
                            const abi_handle *infos, int root, tps_word comm, abi_handle *made,
                            int *codes) {
  typedef int real_call(int, char **, char ***, const int *, const abi_handle *, int, tps_word,
                        abi_handle *, int *);
  static tps_function *found;
  real_call *real = (real_call *)tps__real(&found, "PMPI_Comm_spawn_multiple");
  if (real == NULL)
    return ABI_ERR_UNSUPPORTED_OPERATION;
  if (!tps__enter())
    return real(count, commands, arguments, processes, infos, root, comm, made, codes);
  struct lines lines = {.count = count, .commands = commands, .arguments = arguments};
  uint64_t key = next_key(comm);
  bool here = is_root(root, comm);
  if (here)
    make_lines(&lines, infos, key);
  uint64_t start = tps__start();
  int code =
      real(count, lines.commands, lines.arguments, processes, infos, root, comm, made, codes);
  uint64_t spent = tps__spent(start);
  free_lines(&lines, commands);
  if (code == 0)
    add_spawned(here ? count : 0, commands, key, *made);
  tps__leave(TPS_TIME_OTHER, false, spent);
  return code;
}

/* As `origin`, those at the other side that are in no known world. */
static void meet(abi_handle made, enum tps_world_origin origin, uint64_t key) {
  const struct tps_header *header = tps__process.header;
  uint32_t before = header->worlds_used;
  if (tps__comm_of(ABI_WORD(made), false) == NULL || header->worlds_used == before)
    return;
  struct tps_world *entry =
      (struct tps_world *)(void *)((char *)(void *)tps__process.header + header->worlds.offset) +
      before;
  entry->origin = (uint32_t)origin;
  entry->key = key;
}

void tps__on_connection(tps_word comm, abi_handle made) {
  uint64_t key = next_key(comm);
  if (made != tps__comm_null())
    meet(made, TPS_WORLD_CONNECTED, key);
}

void tps__on_join(abi_handle made) {
  if (made != tps__comm_null())
    meet(made, TPS_WORLD_JOINED, 0);
}
