/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From handles to world ranks. Every live handle that was used has a struct tps_comm, found by
 * handle and dropped when the handle is freed, because MPI reuses handles. Groups are shared by
 * content, so that a program that makes and frees communicators all day fills no table.
 */
#include <stdlib.h>
#include <string.h>

#include "counters.h"

#define HANDLE_BUCKETS 1024u
#define GROUP_BUCKETS 256u

static struct tps_comm *handles[HANDLE_BUCKETS];
static struct tps_group *groups[GROUP_BUCKETS];
static abi_handle world_group;
static bool has_world;

static unsigned handle_bucket(tps_word word) {
  return (unsigned)((word * UINT64_C(0x9e3779b97f4a7c15)) >> 48) % HANDLE_BUCKETS;
}

bool tps__comm_start(int *rank, int *size) {
  has_world = tps__world_group(&world_group);
  return has_world && tps__mpi.Group_rank(world_group, rank) == 0 &&
         tps__mpi.Group_size(world_group, size) == 0;
}

void tps__comm_renew(void) {
  tps__lock();
  if (has_world)
    tps__mpi.Group_free(&world_group);
  has_world = tps__world_group(&world_group);
  tps__unlock();
}

/* Under the lock. A thread whose session is not the only one may come here before the thread that
 * opened the first one has renewed the world. */
static bool know_world(void) {
  if (!has_world)
    has_world = tps__world_group(&world_group);
  return has_world;
}

/* World ranks of all members of `group`; NULL on failure. The caller frees. */
static int *translate(abi_handle group, int size) {
  int *from = malloc(sizeof *from * ((size_t)size + 1));
  int *to = malloc(sizeof *to * ((size_t)size + 1));
  bool done = from != NULL && to != NULL;
  if (done) {
    for (int i = 0; i < size; ++i)
      from[i] = i;
    done = size == 0 || (know_world() &&
                         tps__mpi.Group_translate_ranks(group, size, from, world_group, to) == 0);
  }
  free(from);
  if (!done) {
    free(to);
    return NULL;
  }
  for (int i = 0; i < size; ++i)
    if (to[i] == ABI_UNDEFINED)
      to[i] = TPS_MEMBER_OUTSIDE;
  return to;
}

static uint64_t hash_members(const int *world, int size, bool inter) {
  uint64_t hash = (uint64_t)size * 2 + (inter ? 1 : 0);
  for (int i = 0; i < size; ++i)
    hash = (hash ^ (uint64_t)(uint32_t)world[i]) * UINT64_C(0x100000001b3);
  return hash;
}

static bool same_members(const struct tps_group *group, const int *world, int size, bool inter) {
  return group->size == size && group->inter == inter &&
         memcmp(group->world, world, sizeof *world * (size_t)size) == 0;
}

static bool is_identity(const int *world, int size) {
  for (int i = 0; i < size; ++i)
    if (world[i] != i)
      return false;
  return true;
}

/* The one shared group with these members; takes over `world`. NULL when memory ran out. */
static struct tps_group *intern_group(int *world, int size, bool inter, const char *name) {
  uint64_t hash = hash_members(world, size, inter);
  struct tps_group **bucket = &groups[hash % GROUP_BUCKETS];
  for (struct tps_group *group = *bucket; group != NULL; group = group->next) {
    if (group->hash == hash && same_members(group, world, size, inter)) {
      free(world);
      return group;
    }
  }
  struct tps_group *made = malloc(sizeof *made);
  if (made == NULL) {
    free(world);
    return NULL;
  }
  *made = (struct tps_group){.size = size,
                             .inter = inter,
                             .identity = is_identity(world, size),
                             .world = world,
                             .hash = hash,
                             .next = *bucket};
  made->record_id = tps__communicator_add(made, name);
  *bucket = made;
  return made;
}

/* Reads group, size and own rank of a handle into `comm`; consumes the MPI group. */
static bool read_group(struct tps_comm *comm, abi_handle group, bool inter, const char *name) {
  int size = 0;
  bool good = tps__mpi.Group_size(group, &size) == 0;
  int *world = good ? translate(group, size) : NULL;
  if (!inter && (tps__mpi.Group_rank(group, &comm->my_rank) != 0))
    good = false;
  tps__mpi.Group_free(&group);
  if (!good || world == NULL) {
    free(world);
    return false;
  }
  comm->peers = intern_group(world, size, inter, name);
  if (!inter)
    comm->local_size = size;
  return comm->peers != NULL;
}

static bool read_communicator(struct tps_comm *comm) {
  abi_handle handle = ABI_HANDLE(comm->word);
  abi_handle group;
  char name[ABI_MAX_OBJECT_NAME + 1] = "";
  int length = 0;
  int inter = 0;
  if (tps__mpi.Comm_test_inter(handle, &inter) != 0)
    return false;
  if (tps__mpi.Comm_get_name != NULL)
    tps__mpi.Comm_get_name(handle, name, &length);
  if (!inter)
    return tps__mpi.Comm_group(handle, &group) == 0 && read_group(comm, group, false, name);
  if (tps__mpi.Comm_rank(handle, &comm->my_rank) != 0 ||
      tps__mpi.Comm_size(handle, &comm->local_size) != 0)
    return false;
  return tps__mpi.Comm_remote_group(handle, &group) == 0 && read_group(comm, group, true, name);
}

static bool read_window(struct tps_comm *comm) {
  abi_handle group;
  return tps__mpi.Win_get_group(ABI_HANDLE(comm->word), &group) == 0 &&
         read_group(comm, group, false, "");
}

static struct tps_comm *add_handle(tps_word word, bool window) {
  struct tps_comm *comm = calloc(1, sizeof *comm);
  if (comm == NULL)
    return NULL;
  comm->word = word;
  comm->out_degree = -1;
  if (!(window ? read_window(comm) : read_communicator(comm))) {
    free(comm);
    return NULL;
  }
  struct tps_comm **bucket = &handles[handle_bucket(word)];
  comm->next = *bucket;
  *bucket = comm;
  return comm;
}

struct tps_comm *tps__comm_find(tps_word word, bool window) {
  static bool said;
  tps__lock();
  uint64_t generation = __atomic_load_n(&tps__process.generation, __ATOMIC_ACQUIRE);
  struct tps_comm *comm = handles[handle_bucket(word)];
  while (comm != NULL && comm->word != word)
    comm = comm->next;
  if (comm == NULL)
    comm = add_handle(word, window);
  tps__unlock();
  if (comm == NULL) {
    tps__warn(&said, "cannot read the members of a communicator: its messages are not attributed");
    return NULL;
  }
  struct tps_thread *thread = &tps__thread;
  if (thread->generation != generation) {
    memset(thread->comms, 0, sizeof thread->comms);
    thread->generation = generation;
  }
  thread->comms[tps__comm_cache_index(word)].word = word;
  thread->comms[tps__comm_cache_index(word)].comm = comm;
  return comm;
}

void tps__handle_gone(tps_word word) {
  if (!tps__recording())
    return;
  tps__lock();
  struct tps_comm **link = &handles[handle_bucket(word)];
  while (*link != NULL && (*link)->word != word)
    link = &(*link)->next;
  struct tps_comm *gone = *link;
  if (gone != NULL) {
    *link = gone->next;
    __atomic_fetch_add(&tps__process.generation, 1, __ATOMIC_ACQ_REL);
    free(gone->out);
    free(gone);
  }
  tps__unlock();
}

static bool cart_neighbours(struct tps_comm *comm) {
  abi_handle handle = ABI_HANDLE(comm->word);
  int dimensions = 0;
  if (tps__mpi.Cartdim_get(handle, &dimensions) != 0)
    return false;
  comm->out = malloc(sizeof *comm->out * ((size_t)dimensions * 2 + 1));
  if (comm->out == NULL)
    return false;
  int *next = comm->out; /* MPI's order: below, above, per dimension */
  for (int d = 0; d < dimensions; ++d) {
    int below = ABI_PROC_NULL;
    int above = ABI_PROC_NULL;
    if (tps__mpi.Cart_shift(handle, d, 1, &below, &above) != 0)
      return false;
    *next++ = below;
    *next++ = above;
  }
  comm->in_degree = comm->out_degree = 2 * dimensions;
  return true;
}

static bool graph_neighbours(struct tps_comm *comm) {
  abi_handle handle = ABI_HANDLE(comm->word);
  int degree = 0;
  if (tps__mpi.Graph_neighbors_count(handle, comm->my_rank, &degree) != 0)
    return false;
  comm->out = malloc(sizeof *comm->out * ((size_t)degree + 1));
  if (comm->out == NULL || tps__mpi.Graph_neighbors(handle, comm->my_rank, degree, comm->out) != 0)
    return false;
  comm->in_degree = comm->out_degree = degree;
  return true;
}

static bool dist_graph_neighbours(struct tps_comm *comm) {
  abi_handle handle = ABI_HANDLE(comm->word);
  int in = 0;
  int out = 0;
  int weighted = 0;
  if (tps__mpi.Dist_graph_neighbors_count(handle, &in, &out, &weighted) != 0)
    return false;
  size_t room = (size_t)in + (size_t)out + 1;
  int *sources = malloc(sizeof *sources * room);
  int *weights = malloc(sizeof *weights * room * 2);
  comm->out = malloc(sizeof *comm->out * room);
  bool done = sources != NULL && weights != NULL && comm->out != NULL &&
              tps__mpi.Dist_graph_neighbors(handle, in, sources, weights, out, comm->out,
                                            weights + room) == 0;
  free(sources);
  free(weights);
  comm->in_degree = in;
  comm->out_degree = done ? out : -1;
  return done;
}

bool tps__comm_neighbours(struct tps_comm *comm) {
  int kind = ABI_UNDEFINED;
  tps__lock();
  if (comm->out_degree < 0 && tps__mpi.Topo_test != NULL &&
      tps__mpi.Topo_test(ABI_HANDLE(comm->word), &kind) == 0) {
    bool done = kind == ABI_CART    ? cart_neighbours(comm)
                : kind == ABI_GRAPH ? graph_neighbours(comm)
                                    : kind == ABI_DIST_GRAPH && dist_graph_neighbours(comm);
    if (!done) {
      free(comm->out);
      comm->out = NULL;
      comm->out_degree = -1;
    }
  }
  tps__unlock();
  return comm->out_degree >= 0;
}
