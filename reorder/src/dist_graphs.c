/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Distributed graphs: every rank is told some of the edges. */
#include <limits.h>
#include <stdlib.h>

#include "edges.h"
#include "order.h"
#include "wrapped.h"

TPR_WRAPPED(Dist_graph_create,
            (tpr_word comm_old, int n, const int sources[], const int degrees[],
             const int destinations[], const int weights[], tpr_word info, int reorder,
             void *comm_dist_graph),
            (comm_old, n, sources, degrees, destinations, weights, info, reorder, comm_dist_graph))
TPR_WRAPPED(Dist_graph_create_adjacent,
            (tpr_word comm_old, int indegree, const int sources[], const int sourceweights[],
             int outdegree, const int destinations[], const int destweights[], tpr_word info,
             int reorder, void *comm_dist_graph),
            (comm_old, indegree, sources, sourceweights, outdegree, destinations, destweights, info,
             reorder, comm_dist_graph))

enum { MOST_NEIGHBOURS = INT_MAX / 8 };

static bool are_ranks(const int *numbers, int count, int size) {
  if (count < 0 || count > MOST_NEIGHBOURS || (count > 0 && numbers == NULL))
    return false;
  for (int i = 0; i < count; ++i)
    if (numbers[i] < 0 || numbers[i] >= size)
      return false;
  return true;
}

static bool are_weights(const int *weights, int count) {
  if (weights == tpr__abi.unweighted || weights == tpr__abi.weights_empty)
    return weights == tpr__abi.unweighted || count == 0;
  for (int i = 0; i < count; ++i)
    if (weights == NULL || weights[i] < 0)
      return false;
  return true;
}

/* Every rank gives weights, or none does; one that has no edges to weigh goes with the others. */
static bool agree_on_weights(const struct tpr_order *order, bool good, bool edges, bool weighted,
                             bool *all) {
  *all = tpr__order_agree(order, good && (!edges || weighted));
  bool none = tpr__order_agree(order, good && (!edges || !weighted));
  *all = *all && !none;
  return *all || none;
}

static void add_edge(struct tpr_triples *edges, int source, int target, int weight) {
  int *numbers = edges->numbers + (size_t)edges->count * 3;
  numbers[0] = source;
  numbers[1] = target;
  numbers[2] = weight;
  edges->count += 1;
}

/* The edges that MPI_Dist_graph_create is told; count -1: they are none, or no memory. */
static struct tpr_triples listed(int size, int n, const int *sources, const int *degrees,
                                 const int *destinations, const int *weights) {
  struct tpr_triples edges = {.count = -1};
  long long count = 0;
  if (!are_ranks(sources, n, size) || (n > 0 && degrees == NULL))
    return edges;
  for (int i = 0; i < n; ++i) {
    if (degrees[i] < 0)
      return edges;
    count += degrees[i];
  }
  if (count > MOST_NEIGHBOURS || !are_ranks(destinations, (int)count, size) ||
      !are_weights(weights, (int)count))
    return edges;
  edges = tpr__triples(count);
  if (edges.numbers == NULL)
    return edges;
  edges.count = 0;
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < degrees[i]; ++k)
      add_edge(&edges, sources[i], destinations[edges.count],
               weights == tpr__abi.unweighted ? 1 : weights[edges.count]);
  return edges;
}

int PMPI_Dist_graph_create(tpr_word comm_old, int n, const int sources[], const int degrees[],
                           const int destinations[], const int weights[], tpr_word info,
                           int reorder, void *comm_dist_graph) {
  Dist_graph_create_call *next = next_Dist_graph_create();
  struct tpr_order order;
  tpr_word permuted;
  if (next == NULL)
    return TPR_NO_MPI;
  if (!reorder || !tpr__order_begin(&order, "MPI_Dist_graph_create", comm_old))
    return next(comm_old, n, sources, degrees, destinations, weights, info, reorder,
                comm_dist_graph);
  bool done = false;
  struct tpr_triples edges = listed(order.size, n, sources, degrees, destinations, weights);
  bool good = comm_dist_graph != NULL && edges.count >= 0;
  bool weighted = weights != tpr__abi.unweighted;
  if (agree_on_weights(&order, good, edges.count > 0, weighted, &weighted)) {
    struct tpr_links links = {0};
    enum tpr_answer answer = tpr__edges_map(&order, &edges, &links);
    const char *unit = weighted ? "weight of edges" : "edges";
    /* Edges are between roles, whoever tells them: the MPI brings them to their processes. */
    if (tpr__order_move(&order, answer, &links, "", unit, &permuted)) {
      int code =
          next(permuted, n, sources, degrees, destinations, weights, info, 0, comm_dist_graph);
      done = tpr__order_finish(&order, permuted, code, comm_dist_graph);
    }
  }
  free(edges.numbers);
  tpr__order_end(&order);
  return done ? TPR_SUCCESS
              : next(comm_old, n, sources, degrees, destinations, weights, info, reorder,
                     comm_dist_graph);
}

static struct tpr_triples outgoing(int rank, const struct tpr_neighbours *own) {
  struct tpr_triples edges = tpr__triples(own->out);
  if (edges.numbers == NULL)
    return edges;
  edges.count = 0;
  for (int i = 0; i < own->out; ++i)
    add_edge(&edges, rank, own->targets[i], own->weighted ? own->target_weights[i] : 1);
  return edges;
}

static bool are_neighbours(const struct tpr_neighbours *own, int size) {
  return are_ranks(own->sources, own->in, size) && are_ranks(own->targets, own->out, size) &&
         are_weights(own->source_weights, own->in) && are_weights(own->target_weights, own->out);
}

/* The weights as MPI wants them: of a role without such edges they are another constant. */
static const int *weights_for_mpi(bool weighted, const int *weights, int count) {
  if (!weighted)
    return tpr__abi.unweighted;
  return count == 0 ? tpr__abi.weights_empty : weights;
}

int PMPI_Dist_graph_create_adjacent(tpr_word comm_old, int indegree, const int sources[],
                                    const int sourceweights[], int outdegree,
                                    const int destinations[], const int destweights[],
                                    tpr_word info, int reorder, void *comm_dist_graph) {
  Dist_graph_create_adjacent_call *next = next_Dist_graph_create_adjacent();
  struct tpr_order order;
  tpr_word permuted;
  if (next == NULL)
    return TPR_NO_MPI;
  if (!reorder || !tpr__order_begin(&order, "MPI_Dist_graph_create_adjacent", comm_old))
    return next(comm_old, indegree, sources, sourceweights, outdegree, destinations, destweights,
                info, reorder, comm_dist_graph);
  bool weighted = sourceweights != tpr__abi.unweighted;
  struct tpr_neighbours own = {.weighted = weighted,
                               .in = indegree,
                               .out = outdegree,
                               .sources = sources,
                               .source_weights = sourceweights,
                               .targets = destinations,
                               .target_weights = destweights};
  bool good = comm_dist_graph != NULL && are_neighbours(&own, order.size) &&
              weighted == (destweights != tpr__abi.unweighted);
  bool done = false;
  struct tpr_triples edges = {.count = -1};
  if (good)
    edges = outgoing(order.rank, &own);
  if (agree_on_weights(&order, good && edges.count >= 0, true, weighted, &weighted)) {
    struct tpr_links links = {0};
    enum tpr_answer answer = tpr__edges_map(&order, &edges, &links);
    const char *unit = weighted ? "weight of edges" : "edges";
    if (tpr__order_move(&order, answer, &links, "", unit, &permuted)) {
      struct tpr_neighbours role = {0};
      int code = TPR_UNDEFINED;
      if (tpr__edges_exchange(&order, permuted, &own, &role))
        code = next(permuted, role.in, role.sources,
                    weights_for_mpi(weighted, role.source_weights, role.in), role.out, role.targets,
                    weights_for_mpi(weighted, role.target_weights, role.out), info, 0,
                    comm_dist_graph);
      done = tpr__order_finish(&order, permuted, code, comm_dist_graph);
      free(role.room);
    }
  }
  free(edges.numbers);
  tpr__order_end(&order);
  return done ? TPR_SUCCESS
              : next(comm_old, indegree, sources, sourceweights, outdegree, destinations,
                     destweights, info, reorder, comm_dist_graph);
}
