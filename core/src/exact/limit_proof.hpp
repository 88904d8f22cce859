// Least congestion and least flow time on up to 16 devices, by ever lower limits.
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
/// Without a proof by the end of the deadline, the lower bound (`known_bound` at least) is the
/// highest limit, of some between, within which there is nothing; and placements that were found
/// late, after `steady_nodes` nodes, are not taken: which of them come before the deadline depends
/// on the speed of the machine.
[[nodiscard]] BoundedAnswer prove_by_limits(const LoadProblem &problem, bool timed,
                                            const Assignment &incumbent, double known_bound,
                                            std::uint64_t steady_nodes, const Deadline &deadline);

} // namespace toposeat
