/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The edges of a distributed graph: all at one rank, and those of a role with its process. */
#ifndef TOPOSEAT_EDGES_H
#define TOPOSEAT_EDGES_H

#include "order.h"

/* Edges as (source, target, weight), one after another. */
struct tpr_triples {
  int count; /* of edges; -1: they could not be listed */
  int *numbers;
};

/* Room for `count` edges. */
struct tpr_triples tpr__triples(long long count);

/* Collective: brings the edges of all ranks to rank 0, which maps them. */
enum tpr_answer tpr__edges_map(struct tpr_order *order, const struct tpr_triples *own,
                               struct tpr_links *links);

/* What MPI_Dist_graph_create_adjacent is told of one process. */
struct tpr_neighbours {
  bool weighted; /* else weights are not read */
  int in;
  int out;
  const int *sources;
  const int *source_weights;
  const int *targets;
  const int *target_weights;
  int *room; /* what holds the four, when they came from another process */
};

/*
 * Collective over the old and the permuted communicator: gives each process the neighbours of the
 * role that it has now. False: at some rank it failed.
 */
bool tpr__edges_exchange(const struct tpr_order *order, tpr_word permuted,
                         const struct tpr_neighbours *own, struct tpr_neighbours *role);

#endif
