// Multilevel bisection: a graph in two parts of given sizes with little weight between them.
//
// Hendrickson, Leland, A multilevel algorithm for partitioning graphs, SC 1995; matching by
// weight^2 / (size x size) after Holtgrewe, Sanders, Schulz, IPDPS 2010; refinement in
// fm_refinement.hpp.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/rng.hpp"
#include "division/fm_refinement.hpp"
#include "division/part_graph.hpp"
#include "toposeat/base/deadline.hpp"

namespace toposeat {

struct CoarseGraph {
  PartGraph graph;
  std::vector<std::uint32_t> vertex_of; // of each finer vertex
};

/// Matches neighbours in random order, each with the free neighbour of largest weight^2 / (size x
/// size) (Holtgrewe, Sanders, Schulz, IPDPS 2010), and merges the pairs. No merged vertex stands
/// for more than `most_size` ranks. Vertices without edges are merged with each other.
class Coarsener {
public:
  explicit Coarsener(Rng &rng) : rng_(rng) {}
  CoarseGraph coarsen(const PartGraph &fine, std::uint32_t most_size);

private:
  void match(const PartGraph &fine, std::uint32_t most_size);
  [[nodiscard]] std::uint32_t best_mate(const PartGraph &fine, std::uint32_t v,
                                        std::uint32_t most_size) const;
  void contract(const PartGraph &fine, CoarseGraph &coarse);

  Rng &rng_;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> mate_;
  std::vector<std::uint32_t> seen_at_; // where a coarse neighbour is in the row being built
};

/// Multilevel bisection: merge down to a few dozen vertices, grow several first cuts there, refine
/// the best while uncoarsening. Keeps its buffers from one call to the next.
class Bisector {
public:
  Bisector(std::uint64_t seed, const Deadline &deadline)
      : deadline_(deadline), rng_(seed), coarsener_(rng_), refiner_(deadline) {}

  /// Sides of a graph whose vertices are single ranks; the size of side 0 is within `range`, which
  /// must lie within 0..vertices. At the deadline the cut is left as it is, but not the sizes.
  Sides bisect(const PartGraph &graph, const SizeRange &range);

private:
  Sides divide_coarsest(const PartGraph &graph, const SizeRange &range, const Slack &slack);

  Deadline deadline_;
  Rng rng_;
  Coarsener coarsener_;
  FmRefiner refiner_;
};

} // namespace toposeat
