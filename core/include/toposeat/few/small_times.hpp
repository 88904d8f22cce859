// Least flow time on few devices by enumeration.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include "toposeat/base/deadline.hpp"
#include "toposeat/loads/load_branching.hpp"
#include "toposeat/problem/bounded_answer.hpp"

namespace toposeat {

/// Improves `incumbent` (one device per rank) to the least flow time, within 1e-9. All placements
/// are looked at, save those that symmetries of the machine and of the traffic make of others, and
/// those that links alone, or flows alone, show to take as long as the best; `problem.floors` must
/// hold. Of what is left, one of those that look the same to the flow model is timed. Proved unless
/// `deadline` expires: then the bound is `known_bound`. Throws std::invalid_argument on more than
/// `max_small_loads` devices.
BoundedAnswer least_time(const LoadProblem &problem, const Assignment &incumbent,
                         double known_bound, const Deadline &deadline);

} // namespace toposeat
