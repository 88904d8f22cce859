/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Topologies that every rank is told whole: Cartesian grids and MPI_Graph_create's graphs. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "order.h"
#include "wrapped.h"

TPR_WRAPPED(Cart_create,
            (tpr_word comm_old, int ndims, const int dims[], const int periods[], int reorder,
             void *comm_cart),
            (comm_old, ndims, dims, periods, reorder, comm_cart))
TPR_WRAPPED(Cart_map,
            (tpr_word comm, int ndims, const int dims[], const int periods[], int *newrank),
            (comm, ndims, dims, periods, newrank))
TPR_WRAPPED(Graph_create,
            (tpr_word comm_old, int nnodes, const int index[], const int edges[], int reorder,
             void *comm_graph),
            (comm_old, nnodes, index, edges, reorder, comm_graph))
TPR_WRAPPED(Graph_map,
            (tpr_word comm, int nnodes, const int index[], const int edges[], int *newrank),
            (comm, nnodes, index, edges, newrank))

/* How many cells the grid has; 0: it is none that `ranks` ranks can have. */
static int cells_of(const struct tpr_grid *grid, int ranks) {
  long long cells = 1;
  if (grid->dimensions < 1 || grid->extents == NULL || grid->periods == NULL)
    return 0;
  for (int d = 0; d < grid->dimensions; ++d) {
    if (grid->extents[d] < 1)
      return 0;
    cells *= grid->extents[d];
    if (cells > ranks)
      return 0;
  }
  return (int)cells;
}

static void describe_grid(const struct tpr_grid *grid, char *text, size_t size) {
  size_t used = 0;
  for (int d = 0; d < grid->dimensions && used < size; ++d) {
    int length = snprintf(text + used, size - used, d == 0 ? " %d" : "x%d", grid->extents[d]);
    used += length > 0 ? (size_t)length : size;
  }
}

/* The graph as a list of edges. False: it is no graph of `ranks` ranks. */
static bool is_graph(int vertices, const int *index, const int *targets, int ranks) {
  if (vertices < 1 || vertices > ranks || index == NULL)
    return false;
  for (int v = 0; v < vertices; ++v)
    if (index[v] < (v > 0 ? index[v - 1] : 0))
      return false;
  for (int e = 0; e < index[vertices - 1]; ++e)
    if (targets == NULL || targets[e] < 0 || targets[e] >= vertices)
      return false;
  return true;
}

static enum tpr_answer map_graph(struct tpr_order *order, const int *index, const int *targets,
                                 struct tpr_links *links) {
  size_t count = (size_t)index[order->members - 1];
  int *sources = malloc(sizeof *sources * (count + 1));
  if (sources == NULL)
    return TPR_FAILED;
  size_t e = 0;
  for (int v = 0; v < order->members; ++v)
    while (e < (size_t)index[v])
      sources[e++] = v;
  const struct tpr_edges edges = {count, sources, targets, NULL};
  enum tpr_answer answer =
      tpr__map_graph(order->members, &order->places, &edges, order->new_rank, links);
  free(sources);
  return answer;
}

int PMPI_Cart_create(tpr_word comm_old, int ndims, const int dims[], const int periods[],
                     int reorder, void *comm_cart) {
  Cart_create_call *next = next_Cart_create();
  struct tpr_order order;
  tpr_word permuted;
  const struct tpr_grid grid = {ndims, dims, periods};
  if (next == NULL)
    return TPR_NO_MPI;
  if (!reorder || !tpr__order_begin(&order, "MPI_Cart_create", comm_old))
    return next(comm_old, ndims, dims, periods, reorder, comm_cart);
  int cells = comm_cart != NULL ? cells_of(&grid, order.size) : 0;
  bool done = false;
  if (tpr__order_agree(&order, cells > 0)) {
    char shape[128] = "";
    struct tpr_links links = {0};
    enum tpr_answer answer = TPR_KEPT;
    order.members = cells;
    if (order.rank == 0) {
      describe_grid(&grid, shape, sizeof shape);
      answer = tpr__map_grid(cells, &order.places, &grid, order.new_rank, &links);
    }
    if (tpr__order_move(&order, answer, &links, shape, "neighbour links", &permuted)) {
      int code = TPR_SUCCESS;
      if (tpr__order_is_member(&order))
        code = next(permuted, ndims, dims, periods, 0, comm_cart);
      done = tpr__order_finish(&order, permuted, code, comm_cart);
    }
  }
  tpr__order_end(&order);
  return done ? TPR_SUCCESS : next(comm_old, ndims, dims, periods, reorder, comm_cart);
}

int PMPI_Graph_create(tpr_word comm_old, int nnodes, const int index[], const int edges[],
                      int reorder, void *comm_graph) {
  Graph_create_call *next = next_Graph_create();
  struct tpr_order order;
  tpr_word permuted;
  if (next == NULL)
    return TPR_NO_MPI;
  if (!reorder || !tpr__order_begin(&order, "MPI_Graph_create", comm_old))
    return next(comm_old, nnodes, index, edges, reorder, comm_graph);
  bool done = false;
  if (tpr__order_agree(&order, comm_graph != NULL && is_graph(nnodes, index, edges, order.size))) {
    struct tpr_links links = {0};
    enum tpr_answer answer = TPR_KEPT;
    order.members = nnodes;
    if (order.rank == 0)
      answer = map_graph(&order, index, edges, &links);
    if (tpr__order_move(&order, answer, &links, "", "edges", &permuted)) {
      int code = TPR_SUCCESS;
      if (tpr__order_is_member(&order))
        code = next(permuted, nnodes, index, edges, 0, comm_graph);
      done = tpr__order_finish(&order, permuted, code, comm_graph);
    }
  }
  tpr__order_end(&order);
  return done ? TPR_SUCCESS : next(comm_old, nnodes, index, edges, reorder, comm_graph);
}

/* What the constructors would decide, without a message: these two calls are local. */

static int own_new_rank(const struct tpr_order *order) {
  return tpr__order_is_member(order) ? order->new_rank[order->rank] : TPR_UNDEFINED;
}

int PMPI_Cart_map(tpr_word comm, int ndims, const int dims[], const int periods[], int *newrank) {
  Cart_map_call *next = next_Cart_map();
  struct tpr_order order;
  struct tpr_links links;
  const struct tpr_grid grid = {ndims, dims, periods};
  if (next == NULL)
    return TPR_NO_MPI;
  if (!tpr__order_begin(&order, "MPI_Cart_map", comm))
    return next(comm, ndims, dims, periods, newrank);
  int cells = cells_of(&grid, order.size);
  bool good = cells > 0 && newrank != NULL && order.new_rank != NULL;
  order.members = cells;
  good = good && tpr__map_grid(cells, &order.places, &grid, order.new_rank, &links) == TPR_MOVED;
  if (good)
    *newrank = own_new_rank(&order);
  tpr__order_end(&order);
  return good ? TPR_SUCCESS : next(comm, ndims, dims, periods, newrank);
}

int PMPI_Graph_map(tpr_word comm, int nnodes, const int index[], const int edges[], int *newrank) {
  Graph_map_call *next = next_Graph_map();
  struct tpr_order order;
  struct tpr_links links;
  if (next == NULL)
    return TPR_NO_MPI;
  if (!tpr__order_begin(&order, "MPI_Graph_map", comm))
    return next(comm, nnodes, index, edges, newrank);
  bool good =
      newrank != NULL && order.new_rank != NULL && is_graph(nnodes, index, edges, order.size);
  order.members = nnodes;
  good = good && map_graph(&order, index, edges, &links) == TPR_MOVED;
  if (good)
    *newrank = own_new_rank(&order);
  tpr__order_end(&order);
  return good ? TPR_SUCCESS : next(comm, nnodes, index, edges, newrank);
}
