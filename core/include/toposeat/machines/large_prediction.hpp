// What a placement of a large job does to the links of its machine.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "toposeat/machines/large_machine.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

/// Seconds are bytes over a link / its capacity, one number per direction. `mean_s` is over all
/// links of the machine. `alone_s` is the longest time that a flow would take alone, where the
/// machine knows what a single flow reaches. `predicted_s` is the larger of the two plus the
/// largest messages x latency of a flow (`latency_s`): a bound that a fluid simulation of all flows
/// starting together cannot beat by more than that latency. Where the floor of rounds (flow.hpp) is
/// larger, both are the floor.
struct LargePrediction {
  bool known = false; // false: the machine has no link model (NodesMachine)
  double busiest_s = 0;
  double mean_s = 0;
  double alone_s = 0;
  double latency_s = 0;
  double predicted_s = 0;
  std::uint32_t busiest_link = 0;
};

/// A prediction and the bytes over each link that it rests on.
struct LargeLoads {
  LargePrediction prediction;
  std::vector<double> bytes; // empty for a NodesMachine
};

/// Ranks that share a slot use no links with each other.
[[nodiscard]] LargeLoads link_loads(const RankTraffic &traffic, const LargeMachine &machine,
                                    const Assignment &slots);

[[nodiscard]] LargePrediction predict(const RankTraffic &traffic, const LargeMachine &machine,
                                      const Assignment &slots);

} // namespace toposeat
