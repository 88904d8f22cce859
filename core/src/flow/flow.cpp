// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/flow/flow.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/sort_by_key.hpp"
#include "flow/max_min.hpp"
#include "flow/message_times.hpp"
#include "flow/running_flows.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {
namespace {

// Beyond, rates are computed anew only so often in the least time that the phase can take.
constexpr std::size_t exact_flows = 4096;
constexpr double refills = 500;
constexpr std::size_t bounds_on_the_way = 4; // more would take a few hundredths of the time
constexpr std::size_t between_looks = 16;    // at the clock, in events

/// A lower bound of the time that was computed otherwise than the time may be too large by
/// rounding, and because flows that finish within `same_time` finish together.
class LowerBound {
public:
  explicit LowerBound(double seconds) : seconds_(seconds) {}

  [[nodiscard]] bool surely_exceeds(double limit) const { return seconds_ > limit * (1 + 4e-10); }
  /// To be returned instead of the time; still above such a limit.
  [[nodiscard]] double safe() const { return seconds_ / (1 + 3e-10); }

private:
  double seconds_;
};

} // namespace

/// Walks through the flows of one traffic on one network, for one assignment after the other. An
/// event is a start or a finish, or several at one moment.
class FlowModel::Simulation {
public:
  Simulation(const Network &network, const RankTraffic &traffic)
      : network_(network), traffic_(traffic), messages_(network, traffic),
        system_(network.links, network.pair_limits) {}

  double seconds(const Assignment &device_of_rank, double give_up_s) {
    if (traffic_.flows.empty())
      return 0;
    build(device_of_rank);
    const double floor = floor_s();
    return floor > give_up_s ? floor : std::max(floor, run(give_up_s, end_ ? &*end_ : nullptr));
  }

  void stop_at(const Deadline &end) { end_ = end; }

  FlowTimes times(const Assignment &device_of_rank) {
    if (traffic_.flows.empty())
      return {};
    build(device_of_rank);
    FlowTimes result;
    limit_.assign(finish_.size(), no_link);
    result.seconds = run(unlimited, nullptr);
    if (const double floor = floor_s(); floor > result.seconds) {
      result.seconds = floor;
      result.waiting_rank = static_cast<std::uint32_t>(
          std::max_element(waits_.begin(), waits_.end()) - waits_.begin());
    }
    result.start_s = start_;
    result.finish_s = finish_;
    const auto last = std::max_element(finish_.begin(), finish_.end());
    result.last_flow = static_cast<std::uint32_t>(last - finish_.begin());
    result.bottleneck = limit_[result.last_flow];
    limit_.clear();
    return result;
  }

private:
  void build(const Assignment &device_of_rank) {
    const std::size_t flows = traffic_.flows.size();
    system_.reset(flows);
    start_.resize(flows);
    finish_.resize(flows);
    running_.reset(flows);
    waits_.assign(traffic_.ranks, 0);
    by_start_.clear();
    next_start_ = 0;
    now_ = 0;
    for (std::uint32_t f = 0; f < flows; ++f) {
      const Flow &flow = traffic_.flows[f];
      add(f, flow, device_of_rank[flow.source], device_of_rank[flow.target]);
    }
    system_.close();
    between_bounds_ = 1 + flows / bounds_on_the_way;
    least_step_ = flows > exact_flows ? system_.lower_bound() / refills : 0;
    sorter_.sort(by_start_, start_);
  }

  /// The walk of the assignment that was built; `deadline` may be null.
  double run(double give_up_s, const Deadline *deadline) {
    if (const LowerBound least(system_.lower_bound()); least.surely_exceeds(give_up_s))
      return least.safe();
    for (std::size_t events = 1; next_start_ < by_start_.size() || !running_.empty(); ++events) {
      if (deadline != nullptr && events % between_looks == 0 && deadline->expired())
        return unlimited;
      if (give_up_s < unlimited && events % between_bounds_ == 0) {
        const LowerBound least = bound_of_rest();
        if (least.surely_exceeds(give_up_s))
          return least.safe();
      }
      if (running_.empty())
        now_ = std::max(now_, starts_at(next_start_));
      if (now_ > give_up_s)
        return now_;
      start_due_flows();
      if (running_.empty())
        continue;
      for (const std::uint32_t f : system_.fill())
        running_.change_rate(f, system_.rate(f), now_);
      advance();
    }
    return *std::max_element(finish_.begin(), finish_.end());
  }

  [[nodiscard]] double floor_s() const { return *std::max_element(waits_.begin(), waits_.end()); }

  void add(std::uint32_t number, const Flow &flow, std::uint32_t from, std::uint32_t to) {
    const std::size_t pair = static_cast<std::size_t>(from) * network_.devices + to;
    const MessageTime alone = messages_.of(number, pair);
    if (flow.rounds > 0)
      waits_[flow.source] += flow.rounds / flow.messages * alone.latency;
    start_[number] = alone.latency;
    finish_[number] = start_[number];
    running_.set_bytes(number, flow.bytes);
    system_.add_variable(flow.bytes, alone.latency, alone.rate);
    if (!(flow.bytes > 0))
      return;
    for (const LinkUse &use : network_.route(from, to))
      system_.add_element(use);
    if (const std::int32_t limit = network_.limit(pair); limit != none_of_pair)
      system_.add_limit(static_cast<std::size_t>(limit));
    if (!std::isinf(system_.bound(number)))
      by_start_.push_back(number);
  }

  [[nodiscard]] LowerBound bound_of_rest() {
    running_.left_at(now_, rests_);
    return LowerBound(system_.lower_bound_from(now_, rests_));
  }

  [[nodiscard]] double starts_at(std::size_t place) const {
    return place < by_start_.size() ? start_[by_start_[place]] : unlimited;
  }

  void start_due_flows() {
    for (; starts_at(next_start_) <= now_ * same_time; ++next_start_) {
      const std::uint32_t f = by_start_[next_start_];
      system_.start(f);
      running_.start(f, now_);
    }
  }

  /// To the next event; with a least step, at least that far. Every call starts or finishes a flow,
  /// whatever rounding does: the times compared are the very ones that the least is taken of.
  void advance() {
    const double next_finish = running_.next_finish();
    const double next_start = starts_at(next_start_);
    if (next_start < next_finish && next_start - now_ >= least_step_) {
      now_ = next_start;
    } else {
      finish_flows(std::max(std::min(next_start, next_finish), now_ + least_step_));
    }
  }

  void finish_flows(double until) {
    now_ = until;
    running_.finish(until, [&](std::uint32_t flow, double at) {
      finish_[flow] = least_step_ > 0 ? std::min(until, at) : until;
      if (!limit_.empty())
        limit_[flow] = system_.limit(flow);
      system_.finish(flow);
    });
  }

  const Network &network_;
  const RankTraffic &traffic_;
  MessageTimes messages_;
  MaxMinSystem system_;
  std::vector<double> start_;
  std::vector<double> finish_;
  std::vector<double> waits_;           // of each rank, in rounds
  std::vector<double> rests_;           // bytes
  std::vector<std::uint32_t> limit_;    // of each flow as it finished; empty if nobody asks
  std::vector<std::uint32_t> by_start_; // flows that move bytes, in order of start
  KeySorter sorter_;
  RunningFlows running_;
  std::optional<Deadline> end_;
  std::size_t next_start_ = 0;
  std::size_t between_bounds_ = 1; // of what is left to do, in events
  double now_ = 0;
  double least_step_ = 0; // 0: every event is a step of its own
};

FlowModel::FlowModel(Kept<Network> network, Kept<RankTraffic> traffic)
    : simulation_(std::make_unique<Simulation>(network, traffic)) {}
FlowModel::FlowModel(FlowModel &&) noexcept = default;
FlowModel &FlowModel::operator=(FlowModel &&) noexcept = default;
FlowModel::~FlowModel() = default;

double FlowModel::seconds(const Assignment &device_of_rank, double give_up_s) {
  return simulation_->seconds(device_of_rank, give_up_s);
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
