// How long a schedule takes: phases of messages, one after the other, as often as it repeats.
//
// Phase mode (barrier): a phase begins when all flows of the one before it are done. With T_p the
// flow time of phase p (flow.hpp), R repeats take
//
//     T = R x sum_p T_p
//
// Iterated mode: no barrier. A rank enters a phase when all its own flows, sent and received, of
// the phase before are done; phases in which it has none it passes at once. A flow is issued when
// both its ranks have entered its phase, and moves bytes after its messages' latencies; flows of
// all phases share the links by max-min fairness at every moment. T is the finish of the last flow.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "toposeat/problem/network.hpp"

namespace toposeat {

/// `phases` all have the same ranks.
struct Schedule {
  std::vector<RankTraffic> phases;
  std::uint32_t repeats = 1;

  /// Throws std::invalid_argument unless every phase is valid, all have as many ranks, and there
  /// are at most 2^22 flows over all repeats.
  void validate() const;
};

/// `phase_end_s[r * phases + p]` is when the last flow of phase p in repeat r finishes; for a phase
/// without flows, when the one before it does.
struct ScheduleTimes {
  double seconds = 0;
  std::vector<double> phase_end_s;
};

/// Throws std::invalid_argument if the schedule is not valid or the assignment does not fit.
[[nodiscard]] ScheduleTimes schedule_times(const Network &network, const Schedule &schedule,
                                           const Assignment &device_of_rank, bool barrier);

} // namespace toposeat
