// One phase of concurrent flows, from event to event; the model is described in toposeat/flow.hpp.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "toposeat/flow/flow.hpp"

namespace toposeat {

inline constexpr std::size_t between_looks = 16; // at the clock, in events

/// A lower bound of the time that was computed otherwise than the time may be too large by
/// rounding, and because flows that finish within `same_time` finish together.
class LowerBound {
public:
  explicit LowerBound(double seconds) : seconds_(seconds) {}

  [[nodiscard]] bool surely_exceeds(double limit) const { return seconds_ > limit * (1 + 4e-10); }
  /// To be returned instead of the time; still above such a limit.
  [[nodiscard]] double safe() const { return seconds_ / (1 + 3e-10); }

private:
  double seconds_;
};

/// Walks through the flows of one traffic for one assignment after the other. An event is a start
/// or a finish, or several at one moment.
class PhaseWalk {
public:
  PhaseWalk() = default;
  PhaseWalk(const PhaseWalk &) = delete;
  PhaseWalk &operator=(const PhaseWalk &) = delete;
  virtual ~PhaseWalk() = default;

  /// To be called before each of the others; false if a flow is not handled. Without `bounded`,
  /// `run` must not give up.
  virtual bool build(const Assignment &device_of_rank, bool bounded) = 0;
  /// See FlowModel::seconds; `end` may be null.
  virtual double run(double give_up_s, const Deadline *end) = 0;
  virtual FlowTimes times() = 0;
};

/// Runs a walk that was built, with what is known of each flow. The walk writes `finish_s` of each
/// flow, and `limit` unless that is empty, as it is before and afterwards.
FlowTimes run_to_end(PhaseWalk &walk, const std::vector<double> &finish_s,
                     std::vector<std::uint32_t> &limit);

/// Of any number of flows.
std::unique_ptr<PhaseWalk> walk_of_any(const Network &network, const RankTraffic &traffic);

/// Of few flows between few devices; null if there are more.
std::unique_ptr<PhaseWalk> walk_of_few(const Network &network, const RankTraffic &traffic);

/// Levels this near to each other are one level: it keeps equal shares, which rounding splits, in
/// one round of the filling.
inline constexpr double same_level = 1 + 1e-12;

} // namespace toposeat
