// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/flow.hpp"

#include <memory>
#include <optional>

#include "max_min.hpp"
#include "pair_constraints.hpp"
#include "phase_walk.hpp"
#include "small_filling.hpp"
#include "toposeat/assignment.hpp"

namespace toposeat {
namespace {

/// Rates of any flows.
class AnyRates {
public:
  explicit AnyRates(const Network &network)
      : network_(network), system_(network.links, network.pair_limits) {}

  MaxMinSystem &system() { return system_; }

  /// The next flow, from one device to another if it has bytes. Always true.
  bool add(const Flow &flow, const MessageTime &alone, std::uint32_t from, std::uint32_t to) {
    system_.add_variable(flow.bytes, alone.latency, alone.rate);
    if (!(flow.bytes > 0))
      return true;
    for (const LinkUse &use : network_.route(from, to))
      system_.add_element(use);
    const std::size_t pair = static_cast<std::size_t>(from) * network_.devices + to;
    if (const std::int32_t limit = network_.limit(pair); limit != none_of_pair)
      system_.add_limit(static_cast<std::size_t>(limit));
    return true;
  }

private:
  const Network &network_;
  MaxMinSystem system_;
};

/// Rates of few flows.
template <std::size_t Words> class FewRates {
public:
  explicit FewRates(const Network &network) : constraints_(network), system_(constraints_) {}

  SmallFilling<Words> &system() { return system_; }

  /// The next flow, from one device to another if it has bytes; false if it is not handled here.
  bool add(const Flow &flow, const MessageTime &alone, std::uint32_t from, std::uint32_t to) {
    const PairConstraints::Pair *pair = flow.bytes > 0 ? &constraints_.of(from, to) : nullptr;
    if (pair != nullptr && pair->repeats)
      return false;
    system_.add(flow.bytes, alone.latency, alone.rate, pair);
    return true;
  }

private:
  PairConstraints constraints_;
  SmallFilling<Words> system_;
};

std::unique_ptr<PhaseWalk> walk_for(const Network &network, const RankTraffic &traffic) {
  const std::size_t flows = traffic.flows.size();
  if (network.devices > PairConstraints::most_devices || flows > FlowSet<4>::most)
    return std::make_unique<Walk<AnyRates>>(network, traffic);
  if (flows > FlowSet<2>::most)
    return std::make_unique<Walk<FewRates<4>>>(network, traffic);
  if (flows > FlowSet<1>::most)
    return std::make_unique<Walk<FewRates<2>>>(network, traffic);
  return std::make_unique<Walk<FewRates<1>>>(network, traffic);
}

} // namespace

/// One traffic on one network, for any assignment.
class FlowModel::Simulation {
public:
  Simulation(const Network &network, const RankTraffic &traffic)
      : network_(network), traffic_(traffic), walk_(walk_for(network, traffic)) {}

  double run(const Assignment &device_of_rank, double give_up_s) {
    if (traffic_.flows.empty())
      return 0;
    build(device_of_rank);
    return walk_->run(give_up_s, end_ ? &*end_ : nullptr);
  }

  void stop_at(const Deadline &end) { end_ = end; }

  FlowTimes times(const Assignment &device_of_rank) {
    if (traffic_.flows.empty())
      return {};
    build(device_of_rank);
    return walk_->times();
  }

private:
  void build(const Assignment &device_of_rank) {
    if (walk_->build(device_of_rank))
      return;
    walk_ = std::make_unique<Walk<AnyRates>>(network_, traffic_);
    walk_->build(device_of_rank);
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

} // namespace toposeat
