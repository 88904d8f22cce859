/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Worlds beside MPI_COMM_WORLD. MPI has no name for the world that a process belongs to, so worlds
 * are told apart by how this rank met them: the processes that MPI_Comm_spawn started, the parent
 * that spawned this process, those that accepted or connected, and all others among the members of
 * a communicator. Each world keeps a group of its members, in which members of later communicators
 * are looked up. The newest comes first, because MPI may give the identity of processes that have
 * ended to new ones.
 *
 * Ranks that connect together do so in collective calls, in the same order for the same set of
 * ranks: the number of such calls, with that set, is a key on which they agree without a message.
 */
#include <stdlib.h>
#include <string.h>

#include "interposer.h"

struct world {
  abi_handle group;
  int size;
  uint32_t number; /* 0: there was no room in the record */
  struct world *next;
};

static struct world *worlds; /* the newest first; under the lock, as all here */

static uint32_t describe(int size, enum tps_world_origin origin, uint64_t key, const char *name) {
  static bool said;
  struct tps_header *header = tps__process.header;
  uint32_t number = header->worlds_used;
  struct tps_world *entry =
      (struct tps_world *)(void *)((char *)(void *)header + header->worlds.offset) + number;
  if (number >= header->worlds.capacity || !tps__populate(entry, sizeof *entry)) {
    tps__warn(&said, "no room for another world: messages to further spawned or connected "
                     "processes are counted together");
    return 0;
  }
  *entry = (struct tps_world){.key = key, .origin = (uint32_t)origin, .size = (uint32_t)size};
  if (name != NULL)
    strncpy(entry->name, name, sizeof entry->name - 1);
  __atomic_store_n(&header->worlds_used, number + 1, __ATOMIC_RELEASE);
  return number + 1;
}

void tps__world_add(abi_handle group, int size, enum tps_world_origin origin, uint64_t key,
                    const char *name) {
  uint32_t number = describe(size, origin, key, name);
  struct world *made = number != 0 ? malloc(sizeof *made) : NULL;
  if (made == NULL) {
    tps__mpi.Group_free(&group);
    return;
  }
  *made = (struct world){.group = group, .size = size, .number = number, .next = worlds};
  worlds = made;
}

/* Marks those members of `group` that belong to `world`. `from` and `found` have room for all. */
static void assign_known(const struct world *world, abi_handle group, int size, int *to, int *from,
                         int *found) {
  int unknown = 0;
  for (int i = 0; i < size; ++i)
    if (to[i] == ABI_UNDEFINED)
      from[unknown++] = i;
  if (unknown == 0 ||
      tps__mpi.Group_translate_ranks(group, unknown, from, world->group, found) != 0)
    return;
  for (int i = 0; i < unknown; ++i)
    if (found[i] != ABI_UNDEFINED)
      to[from[i]] = TPS_MEMBER_OUTSIDE - (int)world->number;
}

/* The members that are in no known world become one. */
static void assign_new(abi_handle group, int size, int *to, int *from) {
  int unknown = 0;
  abi_handle part;
  for (int i = 0; i < size; ++i)
    if (to[i] == ABI_UNDEFINED)
      from[unknown++] = i;
  if (unknown == 0)
    return;
  const struct world *before = worlds;
  if (tps__mpi.Group_incl(group, unknown, from, &part) == 0)
    tps__world_add(part, unknown, TPS_WORLD_MET, 0, NULL);
  uint32_t number = worlds != before ? worlds->number : 0;
  for (int i = 0; i < unknown; ++i)
    to[from[i]] = TPS_MEMBER_OUTSIDE - (int)number;
}

void tps__worlds_assign(abi_handle group, int size, int *to) {
  bool all_inside = true;
  for (int i = 0; i < size; ++i)
    all_inside = all_inside && to[i] != ABI_UNDEFINED;
  if (all_inside)
    return;
  int *room = malloc(sizeof *room * (size_t)size * 2);
  if (room == NULL) {
    for (int i = 0; i < size; ++i)
      to[i] = to[i] == ABI_UNDEFINED ? TPS_MEMBER_OUTSIDE : to[i];
    return;
  }
  for (const struct world *world = worlds; world != NULL; world = world->next)
    assign_known(world, group, size, to, room, room + size);
  assign_new(group, size, to, room);
  free(room);
}

bool tps__remote_group(abi_handle inter, abi_handle *group, int *size) {
  return tps__mpi.Comm_remote_group(inter, group) == 0 && tps__mpi.Group_size(*group, size) == 0;
}

void tps__world_parent(void) {
  abi_handle parent;
  abi_handle group;
  int size = 0;
  if (tps__world_model() && tps__mpi.Comm_get_parent != NULL &&
      tps__mpi.Comm_get_parent(&parent) == 0 && parent != tps__comm_null() &&
      tps__remote_group(parent, &group, &size)) {
    uint64_t key = tps__spawned_key();
    tps__world_add(group, size, TPS_WORLD_PARENT, key != 0 ? key : 1, NULL);
  }
}
