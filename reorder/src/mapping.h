/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which process takes which role, for the fewest bytes between nodes, then the nearest devices
 * within them. A role is a rank of the new
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

/* The weight of directed links between neighbours: all of them, and those between two nodes; and
 * what those within nodes cost, each by the pair of devices that it is between. */
struct tpr_links {
  int nodes; /* that the processes are on */
  double all;
  double before;
  double after;
  double within_rising; /* roles of a node with its processes, both in rising order */
  double within;        /* as they are; 0 where devices are not known */
};

/* Where processes are: process p on node node[p], with device device[p] of it. All nodes are alike:
 * cost[a * devices + b] is what a link between devices a and b of one costs, 1 the nearest. */
struct tpr_places {
  int *node;
  int *device; /* NULL: not known */
  int devices;
  const double *cost;
};

/* A Cartesian grid of `dimensions` extents, row-major, every extent > 0. */
struct tpr_grid {
  int dimensions;
  const int *extents;
  const int *periods;
};

/* Directed edges; `weights` may be NULL: each weighs 1. Edges to oneself do not count. */
struct tpr_edges {
  size_t count;
  const int *sources;
  const int *targets;
  const int *weights;
};

/* For `ranks` processes, and as many roles. Fills new_rank[p]: the role of process p. Processes of
 * a node hold its roles in rising order, unless another one gains by the devices' costs. */
enum tpr_answer tpr__map_grid(int ranks, const struct tpr_places *places,
                              const struct tpr_grid *grid, int *new_rank, struct tpr_links *links);
enum tpr_answer tpr__map_graph(int ranks, const struct tpr_places *places,
                               const struct tpr_edges *edges, int *new_rank,
                               struct tpr_links *links);

#ifdef __cplusplus
}
#endif
#endif
