// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/machines/large_prediction.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace toposeat {
namespace {

template <class Machine>
std::vector<double> bytes_on(const RankTraffic &traffic, const Machine &machine,
                             const Assignment &slots) {
  std::vector<double> bytes(machine.links(), 0);
  for (const Flow &flow : traffic.flows) {
    const std::uint32_t from = slots[flow.source];
    const std::uint32_t to = slots[flow.target];
    if (from != to)
      machine.route(from, to, [&](std::uint32_t link) { bytes[link] += flow.bytes; });
  }
  return bytes;
}

template <class Machine>
LargePrediction predict_on(const RankTraffic &traffic, const Machine &machine,
                           const Assignment &slots, const std::vector<double> &bytes) {
  LargePrediction result;
  result.known = true;
  for (std::uint32_t link = 0; link < bytes.size(); ++link) {
    const double seconds = bytes[link] / machine.capacity(link);
    result.mean_s += seconds / static_cast<double>(bytes.size());
    if (seconds > result.busiest_s) {
      result.busiest_s = seconds;
      result.busiest_link = link;
    }
  }
  std::vector<double> waits(traffic.ranks, 0);
  for (const Flow &flow : traffic.flows) {
    if (slots[flow.source] == slots[flow.target])
      continue;
    const double latency = machine.latency(slots[flow.source], slots[flow.target]);
    result.latency_s = std::max(result.latency_s, flow.messages * latency);
    waits[flow.source] += flow.rounds * latency;
    if constexpr (requires { machine.pace(0, 0); })
      result.alone_s = std::max(result.alone_s,
                                flow.bytes * machine.pace(slots[flow.source], slots[flow.target]));
  }
  result.predicted_s = std::max(result.busiest_s, result.alone_s) + result.latency_s;
  const double floor = waits.empty() ? 0 : *std::max_element(waits.begin(), waits.end());
  if (floor > result.predicted_s)
    result.predicted_s = result.latency_s = floor;
  return result;
}

} // namespace

LargeLoads link_loads(const RankTraffic &traffic, const LargeMachine &machine,
                      const Assignment &slots) {
  return std::visit(
      [&]<class Machine>(const Machine &each) -> LargeLoads {
        if constexpr (std::is_same_v<Machine, NodesMachine>) {
          return {};
        } else {
          std::vector<double> bytes = bytes_on(traffic, each, slots);
          const LargePrediction prediction = predict_on(traffic, each, slots, bytes);
          return {prediction, std::move(bytes)};
        }
      },
      machine);
}

LargePrediction predict(const RankTraffic &traffic, const LargeMachine &machine,
                        const Assignment &slots) {
  return link_loads(traffic, machine, slots).prediction;
}

} // namespace toposeat
