// A graph in several blocks of exact capacities: recursive bisection, local repartitioning of
// neighbouring blocks, refinement between pairs of blocks.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "division/bisection.hpp"
#include "division/kway_refinement.hpp"
#include "division/part_graph.hpp"
#include "toposeat/base/deadline.hpp"

namespace toposeat {

/// Blocks that are all as far from each other (the children of one part of the machine), or whose
/// order tells how near they are (two, and two, and two ...): then there is nothing to refine
/// between more than two of them.
class Divider {
public:
  /// At the deadline improvements end, and vertices not divided yet are dealt out as they come.
  Divider(std::uint64_t seed, bool thorough, const Deadline &deadline)
      : deadline_(deadline), thorough_(thorough), rng_(seed ^ 0x5bd1e995U),
        bisector_(seed, deadline), kway_(deadline), local_(deadline) {}

  /// Block of each vertex; block b gets at most `capacity[b]`. Every vertex is one rank. `start`,
  /// if not empty, is such a division to go on from where it is the better one to begin with.
  std::vector<std::uint32_t> divide(const PartGraph &graph,
                                    const std::vector<std::uint32_t> &capacity,
                                    const std::vector<std::uint32_t> &start = {});

  /// The graph of some vertices, numbered in their order.
  PartGraph induced(const PartGraph &graph, std::span<const std::uint32_t> vertices);

private:
  struct Row; // blocks that are still together, and the vertices in them

  void bisect_row(const PartGraph &graph, const Row &row, std::vector<std::uint32_t> &block);
  static void deal(const Row &row, std::vector<std::uint32_t> &block);
  void improve(const PartGraph &graph, const std::vector<std::uint32_t> &capacity, bool started,
               std::vector<std::uint32_t> &block);
  void repartition(const PartGraph &graph, const std::vector<std::uint32_t> &capacity,
                   std::size_t together, int most_rounds, double worthwhile,
                   std::vector<std::uint32_t> &block);
  double repartition_around(const PartGraph &graph, const std::vector<std::uint32_t> &capacity,
                            std::uint32_t centre, std::vector<std::uint32_t> &block);
  std::vector<std::uint32_t> neighbourhood(const PartGraph &graph, std::uint32_t centre,
                                           const std::vector<std::uint32_t> &block);

  Deadline deadline_;
  bool thorough_;
  std::size_t together_ = 0; // blocks that are repartitioned at a time
  Rng rng_;
  Bisector bisector_;
  KwayRefiner kway_;
  KwayRefiner local_;
  std::vector<std::uint32_t> number_; // of each vertex in the graph that is being taken out
  std::vector<std::vector<std::uint32_t>> members_; // of each block while repartitioning
  std::vector<double> link_;                        // of each block to the neighbourhood
};

} // namespace toposeat
