// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/flow/flow.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "flow/phase_walk.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

/// One traffic on one network, for any assignment.
class FlowModel::Simulation {
public:
  Simulation(const Network &network, const RankTraffic &traffic)
      : network_(network), traffic_(traffic), walk_(walk_of_few(network, traffic)) {
    if (walk_ == nullptr)
      walk_ = walk_of_any(network, traffic);
  }

  double run(const Assignment &device_of_rank, double give_up_s) {
    if (traffic_.flows.empty())
      return 0;
    build(device_of_rank, give_up_s < unlimited);
    return walk_->run(give_up_s, end_ ? &*end_ : nullptr);
  }

  void stop_at(const Deadline &end) { end_ = end; }

  FlowTimes times(const Assignment &device_of_rank) {
    if (traffic_.flows.empty())
      return {};
    build(device_of_rank, false);
    return walk_->times();
  }

private:
  void build(const Assignment &device_of_rank, bool bounded) {
    if (walk_->build(device_of_rank, bounded))
      return;
    walk_ = walk_of_any(network_, traffic_);
    walk_->build(device_of_rank, bounded);
  }

  const Network &network_;
  const RankTraffic &traffic_;
  std::unique_ptr<PhaseWalk> walk_;
  std::optional<Deadline> end_;
};

FlowModel::FlowModel(const Network &network, const RankTraffic &traffic)
    : simulation_(std::make_unique<Simulation>(network, traffic)) {}
FlowModel::FlowModel(FlowModel &&) noexcept = default;
FlowModel &FlowModel::operator=(FlowModel &&) noexcept = default;
FlowModel::~FlowModel() = default;

double FlowModel::seconds(const Assignment &device_of_rank, double give_up_s) {
  return simulation_->run(device_of_rank, give_up_s);
}

void FlowModel::stop_at(const Deadline &end) { simulation_->stop_at(end); }

FlowTimes FlowModel::times(const Assignment &device_of_rank) {
  return simulation_->times(device_of_rank);
}

double flow_time(const Network &network, const RankTraffic &traffic,
                 const Assignment &device_of_rank) {
  check_assignment(network, traffic.ranks, device_of_rank);
  return FlowModel(network, traffic).seconds(device_of_rank);
}

FlowTimes flow_times(const Network &network, const RankTraffic &traffic,
                     const Assignment &device_of_rank) {
  check_assignment(network, traffic.ranks, device_of_rank);
  return FlowModel(network, traffic).times(device_of_rank);
}

FlowTimes run_to_end(PhaseWalk &walk, const std::vector<double> &finish_s,
                     std::vector<std::uint32_t> &limit) {
  FlowTimes result;
  limit.assign(finish_s.size(), no_link);
  result.seconds = walk.run(unlimited, nullptr);
  result.finish_s = finish_s;
  const auto last = std::max_element(finish_s.begin(), finish_s.end());
  result.last_flow = static_cast<std::uint32_t>(last - finish_s.begin());
  result.bottleneck = limit[result.last_flow];
  limit.clear();
  return result;
}

} // namespace toposeat
