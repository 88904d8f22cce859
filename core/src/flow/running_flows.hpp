// The flows that move bytes at one moment of a simulation: what each has left, and until when.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/least_of.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

/// Events this near to each other, as a fraction of the time they are away, are one event.
inline constexpr double same_time = 1 + 1e-12;

/// Flows are numbered 0..n-1. All memory is kept from one simulation to the next.
class RunningFlows {
public:
  void reset(std::size_t flows) {
    motions_.resize(flows);
    running_.clear();
    until_.clear();
  }
  void set_bytes(std::uint32_t flow, double bytes) { motions_[flow] = {bytes, 0, 0, 0}; }

  [[nodiscard]] bool empty() const { return running_.empty(); }

  /// `flow` is among the running ones from `now` on, without a rate yet.
  void start(std::uint32_t flow, double now) {
    motions_[flow].since = now;
    motions_[flow].place = static_cast<std::uint32_t>(running_.size());
    running_.push_back(flow);
    until_.push_back(unlimited);
  }

  void change_rate(std::uint32_t flow, double rate, double now) {
    Motion &motion = motions_[flow];
    motion.remaining = std::max(0.0, motion.remaining - (now - motion.since) * motion.rate);
    motion.since = now;
    motion.rate = rate;
    until_[motion.place] = now + motion.remaining / motion.rate;
  }

  /// What each flow that has not finished has left to carry; it keeps its rate until `now`.
  void left_at(double now, std::vector<double> &bytes) const {
    bytes.clear();
    for (const Motion &motion : motions_)
      bytes.push_back(std::max(0.0, motion.remaining - (now - motion.since) * motion.rate));
  }

  /// When the first of them finishes at the present rates.
  [[nodiscard]] double next_finish() const { return least_of(until_); }

  /// Takes out those that finish up to `until` and calls `finished(flow, its time)` for each.
  template <class Finished> void finish(double until, Finished finished) {
    due_.resize(running_.size());
    std::uint32_t *const due = due_.data();
    std::size_t count = 0;
    for (std::size_t i = running_.size(); i > 0; --i) { // no branch to guess wrong
      due[count] = static_cast<std::uint32_t>(i - 1);
      count += until_[i - 1] > until * same_time ? 0U : 1U;
    }
    for (std::size_t k = 0; k < count; ++k) { // the last takes a place left: it is not due
      const std::uint32_t place = due[k];
      const std::uint32_t flow = running_[place];
      const double at = until_[place];
      running_[place] = running_.back();
      until_[place] = until_.back();
      motions_[running_[place]].place = place;
      running_.pop_back();
      until_.pop_back();
      finished(flow, at);
    }
  }

private:
  /// Of a flow that runs: what it had to carry when its rate last changed.
  struct Motion {
    double remaining;
    double since;
    double rate;
    std::uint32_t place; // in running_
  };

  std::vector<Motion> motions_;
  std::vector<std::uint32_t> running_;
  std::vector<std::uint32_t> due_; // places
  std::vector<double> until_;      // when each of them finishes at the present rates
};

} // namespace toposeat
