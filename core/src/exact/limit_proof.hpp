// Least congestion and least flow time on up to 16 devices, by ever lower limits.
//
// Own method over limit_search.hpp: with v the value of the best placement known, all placements
// whose links stay below v are visited; each is evaluated (congestion, or the flow model) and
// lowers v where the search is. When it ends, v is proved. Without time for that, the interval
// between the known bound and v is bisected: a limit within which there is no placement is a new
// bound.
//
// Applies where LimitSearch does. For flow time it evaluates every placement that the links do not
// exclude: on machines measured pair by pair that can be nearly all of them.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>

#include "problem/load_problem.hpp"
#include "toposeat/base/deadline.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// Whether `prove_by_limits` can look at the problem.
[[nodiscard]] bool limits_apply(const LoadProblem &problem);

/// Improves `incumbent` to the least maximum congestion, or with `timed` to the least flow time:
/// whatever `LimitSearch` finds within a limit lowers it, until nothing is left below.
///
/// Without a proof, because it would take too many times `steady_nodes` nodes or at the deadline, the
/// lower bound is `known_bound`, or with `raise` the highest limit, of some between, within which
/// there is nothing; and placements that were found late, after `steady_nodes` nodes, are not taken:
/// which of them come before the deadline depends on the speed of the machine.
[[nodiscard]] BoundedAnswer prove_by_limits(const LoadProblem &problem, bool timed,
                                            const Assignment &incumbent, double known_bound,
                                            std::uint64_t steady_nodes, bool raise,
                                            const Deadline &deadline);

} // namespace toposeat
