// When a solver has to stop.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>

namespace toposeat {

/// Set by whoever wants the answer now, from any thread or a signal handler.
using StopFlag = std::atomic<bool>;

/// A point in time, or earlier if someone says stop. Solvers ask `expired()` often and then return
/// the best they have.
class Deadline {
public:
  /// wall: what users wait for. thread_cpu: time that this thread ran, for measurements on a busy
  /// machine; every question is then a system call, and other threads must not ask.
  enum class Clock : std::uint8_t { wall, thread_cpu };

  /// `seconds` from now; negative counts as 0, more than a day as a day. `stop` must outlive it.
  [[nodiscard]] static Deadline in(double seconds, const StopFlag *stop = nullptr,
                                   Clock clock = Clock::wall) {
    const double sane = seconds > 0 ? (seconds < 86400 ? seconds : 86400) : 0;
    return {clock, now(clock) + sane, stop};
  }

  [[nodiscard]] bool expired() const { return stopped() || now(clock_) >= end_; }
  [[nodiscard]] bool stopped() const {
    return stop_ != nullptr && stop_->load(std::memory_order_relaxed);
  }

  [[nodiscard]] double left() const { return end_ - now(clock_); }

  /// The earlier of this and `seconds` from now; stops with this.
  [[nodiscard]] Deadline within(double seconds) const {
    const Deadline other = in(seconds, stop_, clock_);
    return other.end_ < end_ ? other : *this;
  }

  /// Seconds since some fixed point.
  [[nodiscard]] static double now(Clock clock) {
    std::timespec time{};
    clock_gettime(clock == Clock::wall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

private:
  Deadline(Clock clock, double end, const StopFlag *stop) : clock_(clock), end_(end), stop_(stop) {}

  Clock clock_;
  double end_;
  const StopFlag *stop_;
};

} // namespace toposeat
