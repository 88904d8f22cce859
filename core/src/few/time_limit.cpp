// SPDX-License-Identifier: MIT OR Apache-2.0
#include "few/time_limit.hpp"

#include <algorithm>

namespace toposeat {

TimeLimit::TimeLimit(const LoneFlows &flows, double limit_s) : flows_(flows), limit_s_(limit_s) {
  for (const double capacity : flows.capacities())
    paces_.push_back(1 / capacity);
  loads_.resize(paces_.size());
  for (auto &by_device : beside_) {
    for (auto &by_rank : by_device)
      by_rank.fill(0xff);
  }
  forbid_slow_pairs();
}

void TimeLimit::forbid_slow_pairs() {
  const std::uint32_t n = flows_.network().devices;
  for (std::size_t f = 0; f < flows_.flows().size(); ++f) {
    const Flow &flow = flows_.flows()[f];
    for (std::uint32_t a = 0; a < n; ++a) {
      for (std::uint32_t b = 0; b < n; ++b) {
        if (flows_.alone(f, a, b).seconds <= limit_s_)
          continue;
        beside_[flow.source][a][flow.target] &= static_cast<std::uint8_t>(~(1U << b));
        beside_[flow.target][b][flow.source] &= static_cast<std::uint8_t>(~(1U << a));
      }
    }
  }
}

bool TimeLimit::exceeded(const Assignment &placement) {
  std::fill(loads_.begin(), loads_.end(), Load{});
  for (std::size_t f = 0; f < flows_.flows().size(); ++f) {
    const Flow &flow = flows_.flows()[f];
    const std::uint32_t from = placement[flow.source];
    const std::uint32_t to = placement[flow.target];
    const LoneFlows::Alone &alone = flows_.alone(f, from, to);
    if (alone.seconds > limit_s_)
      return true;
    if (!(flow.bytes > 0))
      continue;
    for (const std::uint32_t number : flows_.constraints(from, to)) {
      Load &load = loads_[number];
      load.start = std::min(load.start, alone.start);
      load.seconds += flow.bytes * paces_[number];
      if (load.start + load.seconds > limit_s_)
        return true;
    }
  }
  return false;
}

} // namespace toposeat
