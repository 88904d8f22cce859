// Merging vertices that talk much, so that a graph can be divided at several scales.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "division/part_graph.hpp"
#include "toposeat/base/rng.hpp"

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

} // namespace toposeat
