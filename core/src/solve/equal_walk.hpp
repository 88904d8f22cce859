// The fastest of equally good placements, or one that is fast enough.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "solve/job.hpp"

namespace toposeat {

/// How far a walk goes, at most.
struct WalkEffort {
  std::size_t places = 0;     // whose surroundings are looked at
  std::size_t placements = 0; // whose links are looked at
  std::uint64_t timings = 0;
};

/// Walks over exchanges of two ranks that keep the objective asked for (cost, or the maximum
/// congestion, and the mean where the maximum is the default's; within 1e-9) and returns the
/// fastest placement met, if it is faster than `start`, which takes `start_s`. Placements with less
/// load above `enough_s` come first; those that their busiest link shows to be too slow are not
/// timed, and of those that exchanges of twin devices or ranks make of each other only one is
/// looked at.
///
/// `start_s` may be more than `enough_s`: then only what takes at most that is timed to its end.
/// Once something is as fast as that, `few` more timings are made.
std::optional<Assignment> faster_equal(const Job &job, const Assignment &start, double start_s,
                                       double enough_s, const WalkEffort &effort, std::uint64_t few,
                                       const Deadline &deadline);

} // namespace toposeat
