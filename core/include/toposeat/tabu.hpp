// Robust tabu search for the pairwise cost.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "toposeat/deadline.hpp"
#include "toposeat/network.hpp"
#include "toposeat/qap.hpp"

namespace toposeat {

struct TabuOptions {
  std::uint64_t seed = 1;
  std::uint64_t moves = 20000; // swaps over all restarts; decides the result unless time runs out
  double target = -1;          // stop when the cost is this low (a proved bound)
  /// Called with every placement that ends a descent or improves the best of a restart.
  std::function<void(const Assignment &, double cost)> visit;
};

inline constexpr SolverScope tabu_scope{.second_term = true, .allowed = true};

struct CostAnswer {
  Assignment placement; // of all ranks, silent ones included
  double cost = 0;
};

/// Best placement found, starting from `start` (a permutation that keeps the pins).
///
/// Robust tabu search (Taillard, Parallel Computing 17, 1991): the deltas of all swaps are kept in
/// a table with O(1) updates, tenures are random, and after n stagnant rounds the search restarts
/// from the best placement with a random cycle through part of it. Deterministic for a seed unless
/// the deadline cuts it short.
CostAnswer tabu_search(const Qap &qap, const Assignment &start, const TabuOptions &options,
                       const Deadline &deadline);

/// Steepest swap descent; `placement` becomes a local optimum. Returns its cost.
double descend(const Qap &qap, Assignment &placement);

} // namespace toposeat
