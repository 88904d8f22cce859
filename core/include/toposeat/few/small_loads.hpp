// Least congestion on few devices by enumeration.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include "toposeat/base/deadline.hpp"
#include "toposeat/loads/load_branching.hpp"
#include "toposeat/problem/assignment.hpp"

namespace toposeat {

inline constexpr std::size_t max_small_loads = 8; // devices: 40320 placements at most

class TimeLimit;

/// What answers must be besides. Neither may tell placements apart that a symmetry of the network
/// exchanges.
struct Requirement {
  Acceptable acceptable = {};       // only such placements count, and the incumbent
  const TimeLimit *limit = nullptr; // that no accepted placement exceeds: rules others out sooner
};

/// Improves `incumbent` (one device per rank) to the least maximum congestion and, among those, the
/// least sum over links, both within 1e-9. All placements are looked at, save those that partial
/// loads, `problem.floors` or a symmetry of the network rule out. Proved unless `deadline` expires.
///
/// Where the least maximum is not less than `sum_below`, little is gained at best: then the sum is
/// only searched for a fixed number of steps. With a requirement, only accepted placements count
/// that are better than the incumbent, and nothing is proved about the others. Throws
/// std::invalid_argument on more than `max_small_loads` devices.
BoundedAnswer least_congestion(const LoadProblem &problem, const Assignment &incumbent,
                               double known_bound, const Deadline &deadline,
                               const Requirement &required = {}, double sum_below = unlimited);

/// Calls `visit` with placements whose maximum congestion is less than what its latest call
/// returned: first with one whose maximum is small, found from `start` on by a few steps. Of those
/// that symmetries of the network and of the traffic make of each other at least one is visited,
/// those that exceed `limit` may be left out. False if the deadline expired first. Throws as
/// `least_congestion` does.
bool visit_below(const LoadProblem &problem, const Assignment &start, const TimeLimit &limit,
                 const Deadline &deadline, const std::function<double(const Assignment &)> &visit);

} // namespace toposeat
