/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "nodes.h"

#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "presence.h"

#define SWITCH_VARIABLE "TOPOSEAT_REORDER"
/* For tests on one machine: the node of each world rank, numbers with commas between them. */
#define PRETENDED_VARIABLE "TOPOSEAT_REORDER_NODES"

/* Set by toposeat-exec: the rank's device; then for each further device of the node what a link to
   those before it costs, in per cent of the nearest pair: "1;100;250,250" of three. */
#define COSTS_VARIABLE "TOPOSEAT_REORDER_COSTS"
enum { MOST_DEVICES = 64 };

/* What every rank tells all others. Costs are those of all nodes if all tell the same number. */
struct place {
  int node;
  int device;
  int costs; /* a number for the text; 0: there is none */
};
enum { PLACE_INTS = sizeof(struct place) / sizeof(int) };

static struct place *place_of_world; /* by world rank; NULL: not known */
static int world_size;
static int devices; /* of each node; 0: not known */
static double cost[MOST_DEVICES * MOST_DEVICES];

void tpr__warn(bool *said, const char *format, ...) {
  if (__atomic_exchange_n(said, true, __ATOMIC_RELAXED))
    return;
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "toposeat: reorder: %s\n", text);
}

static bool switched_off(void) {
  const char *text = getenv(SWITCH_VARIABLE);
  return text != NULL && strcmp(text, "0") == 0;
}

/* The number of this world rank in the list; -1: there is no list, or no number at that place. */
static int pretended_node(int rank) {
  const char *text = getenv(PRETENDED_VARIABLE);
  for (int i = 0; text != NULL && i < rank; ++i) {
    text = strchr(text, ',');
    text = text != NULL ? text + 1 : NULL;
  }
  char *end = NULL;
  long number = text != NULL ? strtol(text, &end, 10) : -1;
  return number >= 0 && number <= INT_MAX && end != text ? (int)number : -1;
}

/* A node's number is the world rank of its first process. -1: MPI did not say. */
static int own_node(int rank) {
  tpr_word node = 0;
  int number = rank;
  if (tpr__mpi.Comm_split_type(tpr__abi.comm_world, tpr__abi.comm_type_shared, rank,
                               tpr__abi.info_null, &node) != TPR_SUCCESS)
    return -1;
  if (tpr__mpi.Bcast(&number, 1, tpr__abi.type_int, 0, node) != TPR_SUCCESS)
    number = -1;
  tpr__mpi.Comm_free(&node);
  return pretended_node(rank) >= 0 ? pretended_node(rank) : number;
}

/* One row after another; how many devices there are, 0: it is no such text. */
static int read_costs(const char *text) {
  int count = 1;
  for (; *text == ';' && count < MOST_DEVICES; ++count) {
    for (int other = 0; other < count; ++other) {
      char *end = NULL;
      if (*text != (other == 0 ? ';' : ','))
        return 0;
      long percent = strtol(text + 1, &end, 10);
      if (end == text + 1 || percent < 1 || percent > 1000000)
        return 0;
      cost[count * MOST_DEVICES + other] = cost[other * MOST_DEVICES + count] =
          (double)percent / 100;
      text = end;
    }
  }
  return *text == '\0' && count > 1 ? count : 0;
}

static void learn_costs(struct place *own) {
  const char *text = getenv(COSTS_VARIABLE);
  char *end = NULL;
  long device = text != NULL ? strtol(text, &end, 10) : -1;
  int count = text != NULL && end != text ? read_costs(end) : 0;
  if (device < 0 || device >= count)
    return;
  unsigned number = 2166136261U; /* FNV-1a */
  for (const char *at = end; *at != '\0'; ++at)
    number = (number ^ (unsigned char)*at) * 16777619U;
  devices = count;
  own->device = (int)device;
  own->costs = (int)(number >> 1) | 1;
}

void tpr__nodes_forget(void) { __atomic_store_n(&place_of_world, NULL, __ATOMIC_RELEASE); }

/* The first collective of this library. `rank` is this one's; whoever speaks for those that want it
 * says why it is not to be. */
static bool all_want_it(int rank, tpr_word world) {
  static bool said;
  bool wants = !switched_off();
  int own[2] = {wants, wants ? rank : INT_MAX};
  int least[2] = {0, INT_MAX};
  if (tpr__mpi.Allreduce(own, least, 2, tpr__abi.type_int, tpr__abi.op_min, world) != TPR_SUCCESS)
    return false;
  if (least[0] == 0 && least[1] == rank)
    tpr__warn(&said, SWITCH_VARIABLE "=0 in some ranks: communicators are as the MPI makes them");
  return least[0] == 1;
}

static bool find_world(struct tpr_world *world) {
  static bool said;
  const char *why = NULL;
  tpr_word parent = 0;
  if (!tpr__find_mpi(&why)) {
    if (!switched_off())
      tpr__warn(&said, "%s: communicators are as the MPI makes them", why);
    return false;
  }
  if (tpr__mpi.Comm_rank(tpr__abi.comm_world, &world->rank) != TPR_SUCCESS ||
      tpr__mpi.Comm_size(tpr__abi.comm_world, &world->size) != TPR_SUCCESS ||
      tpr__mpi.Comm_get_parent(&parent) != TPR_SUCCESS)
    return false;
  world->spawned = tpr__handle(parent) != tpr__abi.comm_null;
  return world->size > 1;
}

bool tpr__nodes_known(void) { return __atomic_load_n(&place_of_world, __ATOMIC_ACQUIRE) != NULL; }

void tpr__nodes_missed(void) {
  static bool said;
  struct tpr_world world = {0};
  if (find_world(&world) && world.rank == 0 && !switched_off())
    tpr__warn(&said, "another tool has begun MPI past this library: communicators are as the MPI "
                     "makes them");
}

void tpr__nodes_learn(void) {
  static bool said;
  struct tpr_world known = {0};
  char why[192];
  int least = 0;
  /* Nothing that only this rank knows may keep it from a collective; so who cannot call one is
     missed before the first. */
  if (!find_world(&known))
    return;
  if (!tpr__all_present(&known, why, sizeof why)) {
    if (why[0] != '\0' && !switched_off())
      tpr__warn(&said, "%s: communicators are as the MPI makes them", why);
    return;
  }
  int rank = known.rank;
  tpr_word world = tpr__abi.comm_world;
  world_size = known.size;
  if (!all_want_it(rank, world))
    return;
  struct place own = {.node = own_node(rank)};
  learn_costs(&own);
  struct place *all = malloc(sizeof *all * (size_t)world_size);
  int good = own.node >= 0 && all != NULL && pthread_atfork(NULL, NULL, tpr__nodes_forget) == 0;
  bool agreed = tpr__mpi.Allreduce(&good, &least, 1, tpr__abi.type_int, tpr__abi.op_min, world) ==
                    TPR_SUCCESS &&
                least == 1;
  if (agreed && tpr__mpi.Allgather(&own, PLACE_INTS, tpr__abi.type_int, all, PLACE_INTS,
                                   tpr__abi.type_int, world) == TPR_SUCCESS) {
    for (int i = 0; i < world_size; ++i)
      if (all[i].costs == 0 || all[i].costs != all[0].costs)
        devices = 0;
    __atomic_store_n(&place_of_world, all, __ATOMIC_RELEASE); /* as long as the process lives */
    return;
  }
  free(all);
  if (rank == 0)
    tpr__warn(&said,
              "the nodes of the ranks are not known: communicators are as the MPI makes them");
}

/* The members of `comm` as ranks of the world; NULL: no memory, or MPI failed. */
static int *world_ranks(tpr_word comm, int size) {
  tpr_word own = 0;
  tpr_word world = 0;
  int *from = malloc(sizeof *from * (size_t)size);
  int *to = malloc(sizeof *to * (size_t)size);
  bool done = false;
  for (int i = 0; from != NULL && i < size; ++i)
    from[i] = i;
  if (from != NULL && to != NULL && tpr__mpi.Comm_group(comm, &own) == TPR_SUCCESS) {
    if (tpr__mpi.Comm_group(tpr__abi.comm_world, &world) == TPR_SUCCESS) {
      done = tpr__mpi.Group_translate_ranks(own, size, from, world, to) == TPR_SUCCESS;
      tpr__mpi.Group_free(&world);
    }
    tpr__mpi.Group_free(&own);
  }
  free(from);
  if (!done) {
    free(to);
    return NULL;
  }
  return to;
}

bool tpr__places_of(tpr_word comm, int size, struct tpr_places *places) {
  const struct place *known = __atomic_load_n(&place_of_world, __ATOMIC_ACQUIRE);
  *places = (struct tpr_places){.devices = MOST_DEVICES, .cost = cost};
  places->node = known != NULL ? world_ranks(comm, size) : NULL;
  if (places->node == NULL)
    return false;
  if (devices > 0)
    places->device = malloc(sizeof *places->device * (size_t)size);
  for (int i = 0; i < size; ++i) {
    int rank = places->node[i];
    if (rank < 0 || rank >= world_size || (devices > 0 && places->device == NULL)) {
      tpr__places_free(places);
      return false;
    }
    if (devices > 0)
      places->device[i] = known[rank].device;
    places->node[i] = known[rank].node;
  }
  return true;
}

void tpr__places_free(struct tpr_places *places) {
  free(places->node);
  free(places->device);
  *places = (struct tpr_places){0};
}
