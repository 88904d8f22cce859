// Scotch as a mapper of large jobs: its own tree and torus machines instead of a complete graph.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "toposeat/division/rank_graph.hpp"
#include "toposeat/machines/large_machine.hpp"

namespace toposeat {

struct ScotchLargeAnswer {
  Assignment slots;               // one-to-one
  std::vector<std::uint32_t> raw; // first slot of the place that Scotch chose, shared or not
  std::uint32_t moved = 0;        // ranks that the repair had to move off a full place
};

/// What Scotch can be told of a machine: a tree of `sizes` from the root down whose levels cost
/// `costs`, or a torus of `extents`. Each of its places stands for `seats` slots in a row.
struct ScotchTarget {
  bool torus = false;
  std::vector<std::uint32_t> sizes;
  std::vector<double> costs; // of a tree's levels
  std::uint32_t seats = 1;
};

/// Hierarchies are trees, dragonflies trees of their groups, tori tori of routers (without what
/// their dimensions differ in, which Scotch cannot be told). A grouped machine is a flat tree of
/// nodes where those are of one size; otherwise throws std::runtime_error.
ScotchTarget scotch_target(const LargeMachine &machine);

/// Scotch with its quality strategy; `threads` 1 pins it to one, 0 leaves it its own choice. It
/// balances, but may put two ranks on one slot: surplus ranks, those with the least traffic, go to
/// the nearest free slot.
///
/// Throws std::runtime_error if the library is missing or refuses.
ScotchLargeAnswer scotch_map_large(const RankGraph &graph, const LargeMachine &machine,
                                   std::uint64_t seed, int threads = 1);

} // namespace toposeat
