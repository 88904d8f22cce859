// A placement to answer with where the best one is predicted slower than the default.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "solve/job.hpp"

namespace toposeat {

/// Best-first search over exchanges of two ranks, from `refused` on, for a placement that is better
/// than the default by the objective asked for (cost or congestion) and takes no longer.
///
/// Placements are looked at in increasing order of the objective, so that those as good as
/// `refused` come first; of equal ones the one whose busiest link is least busy. A heuristic: it
/// ends after so many `looks`, or so many `timings` by the flow model, with the best found by then,
/// if any.
std::optional<Assignment> not_slower_substitute(const Job &job, const Assignment &refused,
                                                std::size_t looks, std::size_t timings,
                                                const Deadline &deadline);

} // namespace toposeat
