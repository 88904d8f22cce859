// Iterated local search for link congestion: descent over exchanges of two devices' ranks, ordered
// by maximum, then mean; random kicks.
//
// Lourenco, Martin, Stuetzle, Iterated local search, in Handbook of Metaheuristics, 2003. The loads
// of all links are kept up to date by exchange (problem/congestion.hpp).
//
// Applies to any network, pins and allowed devices included. It proves nothing, and stops at a
// bound.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "problem/load_problem.hpp"
#include "toposeat/base/deadline.hpp"

namespace toposeat {

struct SwapOptions {
  std::uint64_t seed = 1;
  std::uint64_t exchanges = 20000; // tried in all; decides the result unless time runs out
  double target = 0;               // a proved bound of the maximum
  /// Called with every local optimum.
  std::function<void(const Assignment &)> visit;
};

struct LoadAnswer {
  Assignment placement;
  double max_s = 0;
  double mean_s = 0;
};

/// Iterated descent over exchanges of two devices' ranks, lexicographic in (maximum, mean), with
/// random kicks. On many devices only exchanges that move a rank which uses the busiest link are
/// tried. Deterministic for a seed unless the deadline cuts it short.
LoadAnswer search_congestion(const LoadProblem &problem, const Assignment &start,
                             const SwapOptions &options, const Deadline &deadline);

} // namespace toposeat
