// SPDX-License-Identifier: MIT OR Apache-2.0
#include "flow/message_times.hpp"

#include <algorithm>

namespace toposeat {
namespace {

constexpr std::size_t most_entries = std::size_t{1} << 20U; // 16 MiB

} // namespace

MessageTime message_time(const SizeCurve &curve, const std::vector<SizeShare> &sizes,
                         const Flow &flow) {
  const double mean = flow.messages > 0 ? flow.bytes / flow.messages : flow.bytes;
  double latency = 0;
  double transfer = 0;
  for (const SizeShare &each : sizes) {
    const CurvePoint point = point_at(curve, mean * each.factor);
    latency += each.share * point.latency;
    transfer += each.share * each.factor / point.rate; // per byte of the mean
  }
  return {flow.messages * latency, 1 / transfer};
}

MessageTimes::MessageTimes(const Network &network, const RankTraffic &traffic)
    : network_(network), traffic_(traffic) {
  if (network.curves.empty() || traffic.flows.size() > most_entries / network.curves.size())
    return;
  table_.reserve(traffic.flows.size() * network.curves.size());
  for (const Flow &flow : traffic.flows) {
    for (const SizeCurve &curve : network.curves)
      table_.push_back(message_time(curve, traffic.sizes, flow));
  }
}

MessageTime MessageTimes::on_curve(std::uint32_t flow, std::size_t pair) const {
  const auto curve = static_cast<std::size_t>(network_.curve(pair));
  const MessageTime time =
      table_.empty() ? message_time(network_.curves[curve], traffic_.sizes, traffic_.flows[flow])
                     : table_[flow * network_.curves.size() + curve];
  return {time.latency, std::min(time.rate, network_.cap[pair])};
}

} // namespace toposeat
