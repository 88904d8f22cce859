// Better placements than the default that are not slower, where the best one is.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <optional>

#include "solve/job.hpp"

namespace toposeat {

/// A placement that is better than the default by the objective asked for (cost or congestion) and
/// takes at most `limit_s`, found by steepest descent over exchanges of two ranks: from the default
/// on, and from `refused`, the best of all, after as much of it was given up as its busiest links
/// ask for. Not the best one: only some `timings` are made, and nothing is enumerated.
std::optional<Assignment> better_within(const Job &job, const Assignment &refused, double limit_s,
                                        std::uint64_t timings, const Deadline &deadline);

} // namespace toposeat
