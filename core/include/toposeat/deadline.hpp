// When a solver has to stop.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <atomic>
#include <chrono>

namespace toposeat {

/// Set by whoever wants the answer now, from any thread or a signal handler.
using StopFlag = std::atomic<bool>;

/// A point in wall time, or earlier if someone says stop. Solvers ask `expired()` often and then
/// return the best they have.
class Deadline {
public:
  using Clock = std::chrono::steady_clock;

  /// `seconds` from now; negative counts as 0, more than a day as a day. `stop` must outlive it.
  static Deadline in(double seconds, const StopFlag *stop = nullptr) {
    const double sane = seconds > 0 ? (seconds < 86400 ? seconds : 86400) : 0;
    return Deadline(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                       std::chrono::duration<double>(sane)),
                    stop);
  }

  [[nodiscard]] bool expired() const { return stopped() || Clock::now() >= end_; }
  [[nodiscard]] bool stopped() const {
    return stop_ != nullptr && stop_->load(std::memory_order_relaxed);
  }

  [[nodiscard]] double left() const {
    return std::chrono::duration<double>(end_ - Clock::now()).count();
  }

  /// The earlier of this and `seconds` from now.
  [[nodiscard]] Deadline within(double seconds) const {
    const Deadline other = in(seconds, stop_);
    return other.end_ < end_ ? other : *this;
  }

private:
  Deadline(Clock::time_point end, const StopFlag *stop) : end_(end), stop_(stop) {}
  Clock::time_point end_;
  const StopFlag *stop_;
};

} // namespace toposeat
