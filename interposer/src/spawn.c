/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Processes at the other side of a new communicator: spawned, accepted, connected or joined. */
#include "actions.h"

#include <string.h>

/* The key of the next connection that the members of `comm` make together; 0 if unknown. */
static uint64_t next_key(tps_word comm) {
  const struct tps_comm *over = tps__comm_of(comm, false);
  if (over == NULL)
    return 0;
  uint64_t count = over->peers->connections++;
  return ((over->peers->hash ^ count) * UINT64_C(0x9e3779b97f4a7c15)) | 2u; /* neither 0 nor 1 */
}

/* The command is there at the root only. */
static bool is_root(int root, tps_word comm) {
  const struct tps_comm *over = tps__comm_of(comm, false);
  return over != NULL && over->my_rank == root;
}

/* A path's end names the program, and the record has no room for a long path. */
static const char *file_name(const char *path) {
  const char *slash = path == NULL ? NULL : strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

void tps__on_spawn(const char *command, int root, tps_word comm, abi_handle made) {
  abi_handle group;
  int size = 0;
  uint64_t key = next_key(comm);
  if (made == tps__comm_null() || !tps__remote_group(made, &group, &size))
    return;
  const char *name = is_root(root, comm) ? file_name(command) : NULL;
  tps__lock();
  tps__world_add(group, size, TPS_WORLD_SPAWNED, key, name);
  tps__unlock();
}

void tps__on_spawn_multiple(char *const *commands, int root, tps_word comm, abi_handle made) {
  tps__on_spawn(is_root(root, comm) ? commands[0] : NULL, root, comm, made);
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
