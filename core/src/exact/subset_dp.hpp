// The best placement on a tree, by dynamic programming over nested sets of ranks.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "exact/cut_tree.hpp"
#include "toposeat/problem/network.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// Without `allowed` in its scope, the value still is a lower bound for restricted problems.
inline constexpr SolverScope tree_scope{.second_term = false, .allowed = false};

struct TreeAnswer {
  Assignment placement; // of all ranks, silent ones included
  double value = 0;     // sum or maximum of the terms
};

/// Proved minimum of the sum of all terms over all placements, if it is below `upper`; nothing if
/// no placement is: then whoever has a placement of value `upper` has an optimum.
///
/// The best value of every set of ranks at every node is tabulated, eight sets at a time: a set at
/// a node is split among the children in every way, equal subtrees share one table, and a block of
/// equal leaves needs no splitting. The worst trees of 16 devices take a few tenths of a
/// millisecond, whatever the traffic.
///
/// `traffic.flow` is used whatever `traffic.distance` says; pins are kept. With `limit`, only
/// placements count in which no single term exceeds it.
[[nodiscard]] std::optional<TreeAnswer> min_sum_on_tree(const CutTree &tree, const Qap &traffic,
                                                        double upper = unlimited,
                                                        double limit = unlimited);

/// Proved minimum of the largest term, under the same conditions.
[[nodiscard]] std::optional<TreeAnswer> min_max_on_tree(const CutTree &tree, const Qap &traffic,
                                                        double upper = unlimited);

/// Proved minimum of the largest term, and of the placements that reach it (within 1e-12) one of
/// least sum. Sets of ranks that have a larger term wherever they sit are found once for both.
[[nodiscard]] std::optional<TreeAnswer>
min_max_then_sum_on_tree(const CutTree &tree, const Qap &traffic, double upper = unlimited);

} // namespace toposeat
