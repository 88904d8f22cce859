/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Random grids and graphs, made with reorder = 1 on random communicators: every role has its own
 * neighbours, weights and bytes wherever it runs. Usage: random_topologies CASES SEED NODES, with
 * the node of each world rank, in commas. Every rank draws the same cases and knows all edges.
 *
 * Prints for each kind of topology how many there were, how many moved ranks, and the links between
 * nodes before and after.
 */
#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 64, MAX_EDGES = MAX_RANKS * 8, MAX_DIMENSIONS = 4, KINDS = 4 };
enum kind { CART, GRAPH, DIST_GRAPH, ADJACENT };

static const char *const kind_names[KINDS] = {"cart", "graph", "dist_graph", "adjacent"};
static uint64_t state;
static int world_rank;
static int world_size;
static int number; /* of the case */
static int node_of_world[MAX_RANKS];
static bool by_link; /* ranks may move for links within a node alone */
static int handled;  /* errors that the handler saw */
static int mapped;   /* what MPI_Cart_map or MPI_Graph_map said in this case */

static struct {
  int made;
  int moved;
  long long before;
  long long after;
} tallies[KINDS];

struct edge {
  int source;
  int target;
  int weight;
};

/* What every rank knows of a case. */
struct topology {
  enum kind kind;
  int members; /* of the topology */
  int dimensions;
  int extents[MAX_DIMENSIONS];
  int periods[MAX_DIMENSIONS];
  int weighted;
  int edges;
  struct edge edge[MAX_EDGES];
  int teller[MAX_EDGES]; /* who tells MPI_Dist_graph_create of the edge */
};

static void fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  printf("case %d, rank %d: ", number, world_rank);
  vprintf(format, arguments);
  printf("\n");
  fflush(stdout);
  va_end(arguments);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

#define CHECK(condition, ...)                                                                      \
  do {                                                                                             \
    if (!(condition))                                                                              \
      fail(__VA_ARGS__);                                                                           \
  } while (0)

static int draw(int below) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int)((state >> 33) % (uint64_t)below);
}

static void draw_grid(struct topology *made, int ranks) {
  int cells = 1;
  made->dimensions = 1 + draw(MAX_DIMENSIONS - 1);
  for (int d = 0; d < made->dimensions; ++d) {
    made->extents[d] = 1 + draw(ranks / cells < 4 ? ranks / cells : 4);
    made->periods[d] = draw(2);
    cells *= made->extents[d];
  }
  if (draw(2) == 0) { /* most grids have as many cells as there are ranks */
    made->extents[0] *= ranks / cells;
    cells *= ranks / cells;
  }
  made->members = cells;
}

static void draw_graph(struct topology *made, int ranks) {
  made->members = made->kind == GRAPH ? 1 + draw(ranks) : ranks;
  made->weighted = made->kind != GRAPH && draw(2);
  int wanted = draw(made->members * 4 + 1);
  made->edges = 0;
  for (int i = 0; i < wanted; ++i) {
    struct edge *edge = &made->edge[made->edges];
    *edge = (struct edge){draw(made->members), draw(made->members), draw(9)};
    int twice = 0; /* two edges between the same two cannot be told apart by what arrives */
    for (int e = 0; e < made->edges; ++e)
      twice |= made->edge[e].source == edge->source && made->edge[e].target == edge->target;
    made->teller[made->edges] = draw(ranks);
    made->edges += !twice;
  }
}

/* ---- making it ---- */

static MPI_Comm make_graph(const struct topology *what, MPI_Comm old) {
  int index[MAX_RANKS];
  int targets[MAX_EDGES];
  int used = 0;
  MPI_Comm made;
  for (int v = 0; v < what->members; ++v) {
    for (int e = 0; e < what->edges; ++e)
      if (what->edge[e].source == v)
        targets[used++] = what->edge[e].target;
    index[v] = used;
  }
  MPI_Graph_map(old, what->members, index, targets, &mapped);
  MPI_Graph_create(old, what->members, index, targets, 1, &made);
  return made;
}

static MPI_Comm make_dist_graph(const struct topology *what, MPI_Comm old, int rank) {
  int sources[MAX_EDGES];
  int degrees[MAX_EDGES];
  int targets[MAX_EDGES];
  int weights[MAX_EDGES];
  int n = 0;
  MPI_Comm made;
  for (int e = 0; e < what->edges; ++e) {
    if (what->teller[e] != rank)
      continue;
    sources[n] = what->edge[e].source;
    degrees[n] = 1;
    targets[n] = what->edge[e].target;
    weights[n++] = what->edge[e].weight;
  }
  int *told = !what->weighted ? MPI_UNWEIGHTED : n == 0 ? MPI_WEIGHTS_EMPTY : weights;
  MPI_Dist_graph_create(old, n, sources, degrees, targets, told, MPI_INFO_NULL, 1, &made);
  return made;
}

/* The edges that end, or begin, at a role, in the order of the case. */
static int edges_of(const struct topology *what, int role, int incoming, int *others,
                    int *weights) {
  int n = 0;
  for (int e = 0; e < what->edges; ++e) {
    const struct edge *edge = &what->edge[e];
    if ((incoming ? edge->target : edge->source) != role)
      continue;
    others[n] = incoming ? edge->source : edge->target;
    weights[n++] = edge->weight;
  }
  return n;
}

static MPI_Comm make_adjacent(const struct topology *what, MPI_Comm old, int rank) {
  int sources[MAX_EDGES];
  int targets[MAX_EDGES];
  int in_weights[MAX_EDGES];
  int out_weights[MAX_EDGES];
  MPI_Comm made;
  int in = edges_of(what, rank, 1, sources, in_weights);
  int out = edges_of(what, rank, 0, targets, out_weights);
  int *told_in = !what->weighted ? MPI_UNWEIGHTED : in == 0 ? MPI_WEIGHTS_EMPTY : in_weights;
  int *told_out = !what->weighted ? MPI_UNWEIGHTED : out == 0 ? MPI_WEIGHTS_EMPTY : out_weights;
  MPI_Dist_graph_create_adjacent(old, in, sources, told_in, out, targets, told_out, MPI_INFO_NULL,
                                 1, &made);
  return made;
}

static MPI_Comm make_cart(const struct topology *what, MPI_Comm old) {
  MPI_Comm made;
  MPI_Cart_map(old, what->dimensions, what->extents, what->periods, &mapped);
  MPI_Cart_create(old, what->dimensions, what->extents, what->periods, 1, &made);
  return made;
}

/* ---- what it must be ---- */

/* The neighbours of a cell, below and above along each dimension, as edges of the case. */
static void list_grid_edges(struct topology *what) {
  what->edges = 0;
  int stride = what->members;
  for (int d = 0; d < what->dimensions; ++d) {
    int extent = what->extents[d];
    stride /= extent;
    for (int cell = 0; cell < what->members; ++cell) {
      int at = cell / stride % extent;
      for (int step = -1; step <= 1; step += 2) {
        int next = at + step;
        if ((next < 0 || next >= extent) && !what->periods[d])
          continue;
        next = (next + extent) % extent;
        if (what->edges < MAX_EDGES)
          what->edge[what->edges++] = (struct edge){cell, cell + (next - at) * stride, 1};
      }
    }
  }
}

static void check_grid(const struct topology *what, MPI_Comm made, int role) {
  int extents[MAX_DIMENSIONS];
  int periods[MAX_DIMENSIONS];
  int place[MAX_DIMENSIONS];
  int rest = role;
  MPI_Cart_get(made, what->dimensions, extents, periods, place);
  for (int d = what->dimensions - 1; d >= 0; --d) {
    CHECK(extents[d] == what->extents[d] && !periods[d] == !what->periods[d],
          "dimension %d is another one", d);
    CHECK(place[d] == rest % extents[d], "coordinate %d of rank %d is %d", d, role, place[d]);
    rest /= extents[d];
  }
  if (what->dimensions > 1) {
    MPI_Comm row;
    int keep[MAX_DIMENSIONS] = {0};
    int rank = -1;
    int size = 0;
    keep[what->dimensions - 1] = 1;
    MPI_Cart_sub(made, keep, &row);
    MPI_Comm_rank(row, &rank);
    MPI_Comm_size(row, &size);
    CHECK(rank == place[what->dimensions - 1] && size == extents[what->dimensions - 1],
          "MPI_Cart_sub: rank %d of %d", rank, size);
    MPI_Comm_free(&row);
  }
}

/* Neighbours as MPI tells them, against the case; in its order where MPI promises that. */
static void check_list(const struct topology *what, int role, int incoming, int found,
                       const int *others, const int *weights) {
  int wanted[MAX_EDGES];
  int wanted_weights[MAX_EDGES];
  int taken[MAX_EDGES] = {0};
  int n = edges_of(what, role, incoming, wanted, wanted_weights);
  CHECK(found == n, "role %d has %d neighbours, not %d", role, found, n);
  for (int i = 0; i < n; ++i) {
    int at = i;
    if (what->kind == DIST_GRAPH)
      for (at = 0; at < n && (taken[at] || wanted[at] != others[i]); ++at)
        ;
    CHECK(at < n && others[i] == wanted[at], "role %d: neighbour %d is another one", role, i);
    taken[at] = 1;
    if (what->weighted)
      CHECK(weights[i] == wanted_weights[at], "role %d: weight %d is another one", role, i);
  }
}

static void check_graph(const struct topology *what, MPI_Comm made, int role) {
  int in = 0;
  int out = 0;
  int weighted = -1;
  int sources[MAX_EDGES];
  int targets[MAX_EDGES];
  int in_weights[MAX_EDGES];
  int out_weights[MAX_EDGES];
  if (what->kind == GRAPH) {
    MPI_Graph_neighbors_count(made, role, &out);
    MPI_Graph_neighbors(made, role, out, targets);
    check_list(what, role, 0, out, targets, out_weights);
    return;
  }
  MPI_Dist_graph_neighbors_count(made, &in, &out, &weighted);
  CHECK(!weighted == !what->weighted, "weights are %d", weighted);
  MPI_Dist_graph_neighbors(made, in, sources, in_weights, out, targets, out_weights);
  check_list(what, role, 1, in, sources, in_weights);
  check_list(what, role, 0, out, targets, out_weights);
}

static int bytes_of(int source, int target) { return 1 + (source * 31 + target * 17) % 200; }

/* Every edge carries bytes of its own, from role to role; each must arrive, and no other. */
static void exchange(const struct topology *what, MPI_Comm made, int role) {
  static unsigned char sent[MAX_EDGES][256];
  static unsigned char got[MAX_EDGES][256];
  MPI_Request requests[2 * MAX_EDGES];
  MPI_Status statuses[2 * MAX_EDGES];
  int n = 0;
  for (int e = 0; e < what->edges; ++e) {
    const struct edge *edge = &what->edge[e];
    int bytes = bytes_of(edge->source, edge->target);
    memset(got[e], 0, sizeof got[e]);
    memset(sent[e], (edge->source * 7 + edge->target + 1) & 0xff, sizeof sent[e]);
    if (edge->target == role)
      MPI_Irecv(got[e], bytes, MPI_BYTE, edge->source, e, made, &requests[n++]);
    if (edge->source == role)
      MPI_Isend(sent[e], bytes, MPI_BYTE, edge->target, e, made, &requests[n++]);
  }
  MPI_Waitall(n, requests, statuses);
  for (int e = 0; e < what->edges; ++e)
    if (what->edge[e].target == role)
      CHECK(memcmp(got[e], sent[e], (size_t)bytes_of(what->edge[e].source, role)) == 0,
            "edge %d to role %d: other bytes", e, role);
}

/* By the MPI's own idea of who the neighbours are. */
static void exchange_with_neighbours(MPI_Comm made, int role) {
  int in = 0;
  int out = 0;
  int weighted = 0;
  int sources[MAX_EDGES];
  int targets[MAX_EDGES];
  int weights[MAX_EDGES];
  int sent[MAX_EDGES];
  int got[MAX_EDGES];
  MPI_Dist_graph_neighbors_count(made, &in, &out, &weighted);
  MPI_Dist_graph_neighbors(made, in, sources, weights, out, targets, weights);
  for (int i = 0; i < out; ++i)
    sent[i] = role * MAX_RANKS + targets[i];
  MPI_Neighbor_alltoall(sent, 1, MPI_INT, got, 1, MPI_INT, made);
  for (int i = 0; i < in; ++i)
    CHECK(got[i] == sources[i] * MAX_RANKS + role, "role %d got %d from its neighbour %d", role,
          got[i], sources[i]);
}

/* Old ranks of the members, by new rank; counts what lies between nodes. True: some moved. */
static int judge(const struct topology *what, MPI_Comm old, MPI_Comm made) {
  MPI_Group old_group;
  MPI_Group new_group;
  MPI_Group world_group;
  int all[MAX_RANKS];
  int old_rank[MAX_RANKS];
  int old_world[MAX_RANKS];
  int new_world[MAX_RANKS];
  int seen[MAX_RANKS] = {0};
  int size = 0;
  int moved = 0;
  long long before = 0;
  long long after = 0;
  for (int i = 0; i < MAX_RANKS; ++i)
    all[i] = i;
  MPI_Comm_size(made, &size);
  CHECK(size == what->members, "%d members of %d", size, what->members);
  MPI_Comm_group(old, &old_group);
  MPI_Comm_group(made, &new_group);
  MPI_Comm_group(MPI_COMM_WORLD, &world_group);
  MPI_Group_translate_ranks(new_group, size, all, old_group, old_rank);
  MPI_Group_translate_ranks(new_group, size, all, world_group, new_world);
  MPI_Group_translate_ranks(old_group, size, all, world_group, old_world);
  for (int i = 0; i < size; ++i) {
    CHECK(old_rank[i] >= 0 && old_rank[i] < size && !seen[old_rank[i]]++, "new rank %d was %d", i,
          old_rank[i]);
    moved |= old_rank[i] != i;
  }
  for (int e = 0; e < what->edges; ++e) {
    const struct edge *edge = &what->edge[e];
    int weight = what->weighted ? edge->weight : 1;
    before += node_of_world[old_world[edge->source]] != node_of_world[old_world[edge->target]]
                  ? weight
                  : 0;
    after += node_of_world[new_world[edge->source]] != node_of_world[new_world[edge->target]]
                 ? weight
                 : 0;
  }
  bool gains = after < before || (by_link && after == before);
  CHECK(moved ? gains : after == before, "between nodes %lld, were %lld", after, before);
  MPI_Group_free(&old_group);
  MPI_Group_free(&new_group);
  MPI_Group_free(&world_group);
  tallies[what->kind].moved += moved;
  tallies[what->kind].before += before;
  tallies[what->kind].after += after;
  return moved;
}

/* ---- what a new communicator has of the old one ---- */

static void note_error(MPI_Comm *comm, int *code, ...) {
  (void)comm;
  (void)code;
  handled += 1;
}

static int copy_never(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag) {
  (void)comm, (void)key, (void)extra, (void)in, (void)out;
  *flag = 0;
  return MPI_SUCCESS;
}

static void check_handler(MPI_Comm comm, const char *which) {
  int before = handled;
  int rank = 0;
  MPI_Send(&rank, 1, MPI_INT, MAX_RANKS + 1, 0, comm); /* there is no such rank */
  CHECK(handled == before + 1, "the %s communicator has another error handler", which);
}

/* ---- one case ---- */

static void run_case(int key) {
  static struct topology what;
  MPI_Comm old;
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Errhandler handler;
  int rank = 0;
  int size = 0;
  int few = draw(4) == 0; /* some communicators have a part of the world, in another order */
  int first = draw(world_size / 2);
  int reversed = few && draw(2);
  what = (struct topology){.kind = (enum kind)draw(KINDS)};
  int in = !few || world_rank >= first;
  int count = few ? world_size - first : world_size;
  if (what.kind == CART)
    draw_grid(&what, count);
  else
    draw_graph(&what, count);
  MPI_Comm_split(MPI_COMM_WORLD, in ? 0 : MPI_UNDEFINED, reversed ? -world_rank : world_rank, &old);
  if (!in)
    return;
  MPI_Comm_create_errhandler(note_error, &handler);
  MPI_Comm_set_errhandler(old, handler);
  MPI_Errhandler_free(&handler);
  MPI_Comm_set_attr(old, key, &what);
  MPI_Comm_rank(old, &rank);
  MPI_Comm_size(old, &size);
  /* A receive from anyone that is open meanwhile must get no message but ours. */
  int wild = 0;
  MPI_Request open;
  MPI_Irecv(&wild, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, old, &open);
  made = what.kind == CART         ? make_cart(&what, old)
         : what.kind == GRAPH      ? make_graph(&what, old)
         : what.kind == DIST_GRAPH ? make_dist_graph(&what, old, rank)
                                   : make_adjacent(&what, old, rank);
  int mark = number + 1;
  MPI_Send(&mark, 1, MPI_INT, (rank + 1) % size, 3, old);
  MPI_Wait(&open, MPI_STATUS_IGNORE);
  CHECK(wild == number + 1, "an open receive got %d", wild);
  if (what.kind == CART)
    list_grid_edges(&what);
  CHECK((made != MPI_COMM_NULL) == (rank < what.members), "rank %d of %d is a member: %d", rank,
        what.members, made != MPI_COMM_NULL);
  check_handler(old, "old");
  int role = MPI_UNDEFINED;
  int moved = 0;
  if (made != MPI_COMM_NULL) {
    int flag = 1;
    void *value = NULL;
    MPI_Comm_rank(made, &role);
    check_handler(made, "new");
    MPI_Comm_get_attr(made, key, &value, &flag);
    CHECK(!flag, "the new communicator has an attribute");
    if (what.kind == CART)
      check_grid(&what, made, role);
    else
      check_graph(&what, made, role);
    exchange(&what, made, role);
    if (what.kind == DIST_GRAPH || what.kind == ADJACENT)
      exchange_with_neighbours(made, role);
    moved = judge(&what, old, made);
    MPI_Comm_free(&made);
  }
  /* Where nothing moves the MPI answers, and Open MPI's MPI_Cart_map is wrong for spare ranks. */
  MPI_Allreduce(MPI_IN_PLACE, &moved, 1, MPI_INT, MPI_MAX, old);
  if (moved && what.kind <= GRAPH)
    CHECK(role == mapped, "the map says %d, the rank is %d", mapped, role);
  tallies[what.kind].made += 1;
  MPI_Comm_free(&old);
}

int main(int argc, char **argv) {
  int key = 0;
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  if (argc != 4 || world_size > MAX_RANKS)
    MPI_Abort(MPI_COMM_WORLD, 2);
  state = (uint64_t)strtoull(argv[2], NULL, 10);
  char *next = argv[3];
  for (int i = 0; i < world_size; ++i, next += *next != '\0')
    node_of_world[i] = (int)strtol(next, &next, 10);
  MPI_Comm_create_keyval(copy_never, MPI_COMM_NULL_DELETE_FN, &key, NULL);
  int cases = atoi(argv[1]);
  by_link = getenv("TOPOSEAT_REORDER_COSTS") != NULL;
  for (number = 0; number < cases; ++number)
    run_case(key);
  if (world_rank == world_size - 1) /* it is in every communicator, though not in every topology */
    for (int k = 0; k < KINDS; ++k)
      printf("%s %d moved %d between %lld now %lld\n", kind_names[k], tallies[k].made,
             tallies[k].moved, tallies[k].before, tallies[k].after);
  MPI_Comm_free_keyval(&key);
  MPI_Finalize();
  return 0;
}
