// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/flow/placement_model.hpp"

#include <stdexcept>
#include <utility>

namespace toposeat {

PlacementModel::PlacementModel(Kept<Network> network, Kept<RankTraffic> traffic,
                               std::vector<double> cost)
    : network_(network), traffic_(traffic), flow_(network, traffic), peaks_(network, traffic),
      cost_(std::move(cost)) {
  if (cost_.size() != std::size_t{network_.devices} * network_.devices)
    throw std::invalid_argument("expected a cost for each pair of devices");
}

PlacementFigures PlacementModel::figures(const Assignment &device_of_rank) {
  const Peak peak = peaks_.of(device_of_rank);
  PlacementFigures result{.max_s = peak.max_s, .mean_s = peak.mean_s};
  for (const Flow &flow : traffic_.flows) {
    const std::uint32_t from = device_of_rank[flow.source];
    const std::uint32_t to = device_of_rank[flow.target];
    result.hop_bytes += flow.bytes * static_cast<double>(network_.route(from, to).size());
    result.cost += flow.bytes * cost_[static_cast<std::size_t>(from) * network_.devices + to];
  }
  result.flow_s = flow_.seconds(device_of_rank);
  return result;
}

} // namespace toposeat
