// Least congestion on few devices by enumeration.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>

#include "toposeat/assignment.hpp"
#include "toposeat/deadline.hpp"
#include "toposeat/load_branching.hpp"

namespace toposeat {

inline constexpr std::size_t max_small_loads = 8; // devices: 40320 placements at most

/// Improves `incumbent` (one device per rank) to the least maximum congestion and, among those, the
/// least sum over links, both within 1e-9. All placements are looked at, save those that partial
/// loads, `problem.floors` or a symmetry of the network rule out. Proved unless `deadline` expires.
///
/// The sum is left as it comes if the least maximum is proved and not less than `sum_below`.
///
/// With `acceptable`, only accepted placements whose maximum is less than the incumbent's count,
/// and nothing is proved about the others; it must not tell placements apart that a symmetry of
/// the network exchanges. Throws std::invalid_argument on more than `max_small_loads` devices.
BoundedAnswer least_congestion(const LoadProblem &problem, const Assignment &incumbent,
                               double known_bound, const Deadline &deadline,
                               const Acceptable &acceptable = {}, double sum_below = unlimited);

} // namespace toposeat
