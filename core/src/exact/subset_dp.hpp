// The best placement on a tree, by dynamic programming over nested sets of ranks.
//
// Own method, in the manner of Held, Karp, A dynamic programming approach to sequencing problems,
// J. SIAM 10, 1962. With t(v, S) what the terms of node v charge when S is below it (cut_tree.hpp),
//
//     best(v, S) = t(v, S) + min over S = S1 + S2 + ... of best(c1, S1) + best(c2, S2) + ...
//
// over the children c1, c2 ... of v; for congestion with max in place of +. The optimum is
// best(root, all ranks). Children are joined two by two, so that a set is divided in two; equal
// subtrees share one table, and parts on equal children are divided in one order only.
//
// Applies to a CutTree of up to 16 devices, pins included: the cost on an ultrametric, the
// congestion on links that nest. It proves the optimum: nothing is left out but what symmetries and
// an upper limit allow. On a tree of some links alone (`link_tree_relaxed`) it is a bound.
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
  Assignment placement; // of all ranks, idle ones included
  double value = 0;     // sum or maximum of the terms
};

/// Proved minimum of the sum of all terms over all placements, if it is below `upper`; nothing if
/// no placement is: then whoever has a placement of value `upper` has an optimum.
///
/// Any tree of 16 devices takes a few milliseconds, whatever the traffic.
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
/// least sum.
[[nodiscard]] std::optional<TreeAnswer>
min_max_then_sum_on_tree(const CutTree &tree, const Qap &traffic, double upper = unlimited);

} // namespace toposeat
