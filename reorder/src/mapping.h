/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which process takes which role, for the fewest bytes between nodes. A role is a rank of the new
 * communicator: a cell of the grid, a vertex of the graph. Pure computation, no MPI; the same
 * answer for the same question in every process (MPI_Cart_map must agree with MPI_Cart_create).
 */
#ifndef TOPOSEAT_MAPPING_H
#define TOPOSEAT_MAPPING_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tpr_answer {
  TPR_KEPT,   /* nothing is gained: every process keeps its rank */
  TPR_MOVED,  /* new_rank is another order */
  TPR_FAILED, /* no memory, or too large */
};

/* The weight of directed links between neighbours: all of them, and those between two nodes. */
struct tpr_links {
  int nodes; /* that the processes are on */
  double all;
  double before;
  double after;
};

/* A Cartesian grid of `dimensions` extents, row-major, every extent > 0. */
struct tpr_grid {
  int dimensions;
  const int *extents;
  const int *periods;
};

/* Directed edges; `weights` may be NULL: each weighs 1. Edges of a vertex to itself do not count.
 */
struct tpr_edges {
  size_t count;
  const int *sources;
  const int *targets;
  const int *weights;
};

/* Process p is on node node[p], for `ranks` processes; as many roles. Fills new_rank[p]: the role
 * of process p. Processes of a node hold its roles in rising order. */
enum tpr_answer tpr__map_grid(int ranks, const int *node, const struct tpr_grid *grid,
                              int *new_rank, struct tpr_links *links);
enum tpr_answer tpr__map_graph(int ranks, const int *node, const struct tpr_edges *edges,
                               int *new_rank, struct tpr_links *links);

#ifdef __cplusplus
}
#endif
#endif
