// SPDX-License-Identifier: MIT OR Apache-2.0
#include "time_limit.hpp"

#include <algorithm>
#include <numeric>

#include "toposeat/floors.hpp"
#include "toposeat/qap.hpp"

namespace toposeat {

TimeLimit::TimeLimit(const Network &network, const RankTraffic &traffic, double limit_s)
    : network_(network), limit_s_(limit_s), constraints_(network) {
  std::vector<std::uint32_t> order(traffic.flows.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const double messages_a = traffic.flows[a].messages;
    const double messages_b = traffic.flows[b].messages;
    return messages_a > messages_b || (messages_a == messages_b && a < b);
  });
  const MessageTimes messages(network, traffic);
  const Matrix lone = lone_rates(network);
  const std::size_t n = network.devices;
  for (const std::uint32_t number : order) {
    const Flow &flow = traffic.flows[number];
    flows_.push_back(flow);
    for (std::size_t each = 0; each < n * n; ++each) {
      const MessageTime time = messages.of(number, each);
      const double rate = std::min(time.rate, lone.values[each]);
      alone_.push_back({time.latency, time.latency + (flow.bytes > 0 ? flow.bytes / rate : 0)});
    }
  }
  for (std::uint32_t a = 0; a < n; ++a) {
    for (std::uint32_t b = 0; b < n; ++b)
      static_cast<void>(constraints_.of(a, b));
  }
  for (const PairConstraints::Constraint &each : constraints_.known())
    paces_.push_back(1 / each.capacity);
  loads_.resize(paces_.size());
  for (auto &by_device : beside_) {
    for (auto &by_rank : by_device)
      by_rank.fill(0xff);
  }
  forbid_slow_pairs();
}

void TimeLimit::forbid_slow_pairs() {
  const std::size_t n = network_.devices;
  for (std::size_t f = 0; f < flows_.size(); ++f) {
    const Flow &flow = flows_[f];
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) {
        if (alone_[f * n * n + pair(a, b)].seconds <= limit_s_)
          continue;
        beside_[flow.source][a][flow.target] &= static_cast<std::uint8_t>(~(1U << b));
        beside_[flow.target][b][flow.source] &= static_cast<std::uint8_t>(~(1U << a));
      }
    }
  }
}

bool TimeLimit::exceeded(const Assignment &placement) {
  std::fill(loads_.begin(), loads_.end(), Load{});
  const std::size_t pairs = std::size_t{network_.devices} * network_.devices;
  for (std::size_t f = 0; f < flows_.size(); ++f) {
    const Flow &flow = flows_[f];
    const std::uint32_t from = placement[flow.source];
    const std::uint32_t to = placement[flow.target];
    const Alone &alone = alone_[f * pairs + pair(from, to)];
    if (alone.seconds > limit_s_)
      return true;
    if (!(flow.bytes > 0))
      continue;
    for (const std::uint32_t number : constraints_.elements(constraints_.of(from, to))) {
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
