// Search for a placement of least pairwise cost, for up to a few hundred ranks.
//
// Memetic: a population, crossing, and short walks of robust tabu search (Taillard, Parallel
// Computing 17, 1991; Benlic, Hao, Memetic search for the quadratic assignment problem, Expert
// Systems with Applications 42, 2015), taking turns with iterated tabu search (Misevicius, An
// implementation of the iterated tabu search algorithm for the quadratic assignment problem, OR
// Spectrum 34, 2012) up to 40 ranks. docs/adr/0006 has what was measured.
//
// Applies to every Qap: pins, allowed devices, two terms. It proves nothing, and stops at a bound.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "toposeat/base/deadline.hpp"
#include "toposeat/problem/network.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// automatic: by size and by how uneven flows and distances are.
/// tabu: one robust tabu search without restarts, the classical method; for comparisons.
/// iterated: short tabu searches, each from a kicked version of a good placement.
/// memetic: a population of placements; pairs of them are crossed, the child improved by tabu.
enum class SearchStrategy : std::uint8_t { automatic, tabu, iterated, memetic };

struct SearchOptions {
  std::uint64_t seed = 1;
  std::uint64_t moves = 20000; // exchanges made in all; decides the result unless time runs out
  double target = -1;          // stop when the cost is this low (a proved bound)
  SearchStrategy strategy = SearchStrategy::automatic;
  double patience = 5; // exchanges without success, per rank, that end a walk before the next kick
  /// Called with the best placement of every tabu search and its cost.
  std::function<void(const Assignment &, double cost)> visit = {};
};

struct CostAnswer {
  Assignment placement; // of all ranks, idle ones included
  double cost = 0;
  std::uint64_t moves = 0;
};

/// Best placement found, starting from `start`: a permutation that keeps pins and allowed devices,
/// as the answer does. Deterministic for a seed unless the deadline cuts it short.
[[nodiscard]] CostAnswer search_cost(const Qap &qap, const Assignment &start,
                                     const SearchOptions &options, const Deadline &deadline);

/// Swap descent; `placement` becomes a local optimum. Returns its cost.
double descend(const Qap &qap, Assignment &placement);

} // namespace toposeat
