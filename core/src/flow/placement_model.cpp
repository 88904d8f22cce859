// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/flow/placement_model.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace toposeat {

PlacementModel::PlacementModel(const Network &network, const RankTraffic &traffic,
                               std::vector<double> cost)
    : network_(network), traffic_(traffic), flow_(network, traffic), cost_(std::move(cost)) {
  if (cost_.size() != std::size_t{network.devices} * network.devices)
    throw std::invalid_argument("expected a cost for each pair of devices");
  const std::vector<bool> used = used_links(network);
  used_links_ = static_cast<double>(std::count(used.begin(), used.end(), true));
}

PlacementFigures PlacementModel::figures(const Assignment &device_of_rank) {
  PlacementFigures result;
  bytes_.assign(network_.links.size(), {});
  for (const Flow &flow : traffic_.flows) {
    const std::uint32_t from = device_of_rank[flow.source];
    const std::uint32_t to = device_of_rank[flow.target];
    const auto route = network_.route(from, to);
    for (const LinkUse &use : route)
      (use.reverse ? bytes_[use.link].backward : bytes_[use.link].forward) += flow.bytes;
    result.hop_bytes += flow.bytes * static_cast<double>(route.size());
    result.cost += flow.bytes * cost_[static_cast<std::size_t>(from) * network_.devices + to];
  }
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    const double seconds = congestion_of(network_.links[i], bytes_[i]);
    result.max_s = std::max(result.max_s, seconds);
    result.mean_s += seconds;
  }
  if (used_links_ > 0)
    result.mean_s /= used_links_;
  result.flow_s = flow_.seconds(device_of_rank);
  return result;
}

} // namespace toposeat
