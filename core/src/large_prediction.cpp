// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/large_prediction.hpp"

#include <algorithm>

namespace toposeat {
namespace {

template <class Machine>
std::vector<double> bytes_on(const RankTraffic &traffic, const Machine &machine,
                             const Assignment &slots) {
  std::vector<double> bytes(machine.links(), 0);
  for (const Flow &flow : traffic.flows) {
    machine.route(slots[flow.source], slots[flow.target],
                  [&](std::uint32_t link) { bytes[link] += flow.bytes; });
  }
  return bytes;
}

template <class Machine>
LargePrediction predict_on(const RankTraffic &traffic, const Machine &machine,
                           const Assignment &slots) {
  LargePrediction result;
  result.known = true;
  const std::vector<double> bytes = bytes_on(traffic, machine, slots);
  for (std::uint32_t link = 0; link < bytes.size(); ++link) {
    const double seconds = bytes[link] / machine.capacity(link);
    result.mean_s += seconds / static_cast<double>(bytes.size());
    if (seconds > result.busiest_s) {
      result.busiest_s = seconds;
      result.busiest_link = link;
    }
  }
  for (const Flow &flow : traffic.flows) {
    const double latency = machine.latency(slots[flow.source], slots[flow.target]);
    result.latency_s = std::max(result.latency_s, flow.messages * latency);
    if constexpr (requires { machine.pace(0, 0); })
      result.alone_s = std::max(result.alone_s,
                                flow.bytes * machine.pace(slots[flow.source], slots[flow.target]));
  }
  result.predicted_s = std::max(result.busiest_s, result.alone_s) + result.latency_s;
  return result;
}

} // namespace

std::vector<double> link_bytes(const RankTraffic &traffic, const LargeMachine &machine,
                               const Assignment &slots) {
  return std::visit(
      [&]<class Machine>(const Machine &each) -> std::vector<double> {
        if constexpr (std::is_same_v<Machine, GroupedMachine>)
          return {};
        else
          return bytes_on(traffic, each, slots);
      },
      machine);
}

LargePrediction predict(const RankTraffic &traffic, const LargeMachine &machine,
                        const Assignment &slots) {
  return std::visit(
      [&]<class Machine>(const Machine &each) -> LargePrediction {
        if constexpr (std::is_same_v<Machine, GroupedMachine>)
          return {};
        else
          return predict_on(traffic, each, slots);
      },
      machine);
}

} // namespace toposeat
