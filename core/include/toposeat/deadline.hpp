// When a solver has to stop.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <chrono>

namespace toposeat {

/// A point in wall time. Solvers ask `expired()` often and then return the best they have.
class Deadline {
public:
  using Clock = std::chrono::steady_clock;

  /// `seconds` from now; negative counts as 0, more than a day as a day.
  static Deadline in(double seconds) {
    const double sane = seconds > 0 ? (seconds < 86400 ? seconds : 86400) : 0;
    return Deadline(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                       std::chrono::duration<double>(sane)));
  }

  [[nodiscard]] bool expired() const { return Clock::now() >= end_; }

  [[nodiscard]] double left() const {
    return std::chrono::duration<double>(end_ - Clock::now()).count();
  }

  /// The earlier of this and `seconds` from now.
  [[nodiscard]] Deadline within(double seconds) const {
    const Deadline other = in(seconds);
    return other.end_ < end_ ? other : *this;
  }

private:
  explicit Deadline(Clock::time_point end) : end_(end) {}
  Clock::time_point end_;
};

} // namespace toposeat
