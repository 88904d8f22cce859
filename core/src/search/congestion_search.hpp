// Annealing for link congestion: cycles of random exchanges of two devices' ranks, each twice as
// long as the last, by the sum of the 6th powers of the loads, which is smooth where the maximum is
// not; after each a descent by maximum, then mean.
//
// Kirkpatrick, Gelatt, Vecchi, Optimization by simulated annealing, Science 220, 1983. The loads of
// all links are kept up to date by exchange (problem/congestion.hpp).
//
// Applies to any network, with pins and allowed devices. It proves nothing, and stops at a bound.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <limits>

#include "problem/load_problem.hpp"
#include "toposeat/base/deadline.hpp"

namespace toposeat {

struct SwapOptions {
  std::uint64_t seed = 1;
  std::uint64_t exchanges = std::numeric_limits<std::uint64_t>::max(); // tried in all
  double target = 0;                                                   // a proved bound
  /// Called with every local optimum.
  std::function<void(const Assignment &)> visit;
};

struct LoadAnswer {
  Assignment placement;
  double max_s = 0;
  double mean_s = 0;
};

/// Least maximum, then least mean, that cycles of annealing from the best and descents find; ends
/// when as many exchanges again as were tried, and some for each pair of devices, find nothing.
/// Deterministic for a seed unless the deadline cuts it short.
LoadAnswer search_congestion(const LoadProblem &problem, const Assignment &start,
                             const SwapOptions &options, const Deadline &deadline);

} // namespace toposeat
