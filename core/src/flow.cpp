// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/flow.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "max_min.hpp"
#include "toposeat/assignment.hpp"

namespace toposeat {
namespace {

// Events this near to each other, as a fraction of the time they are away, are one event.
constexpr double same_time = 1 + 1e-12;

// Beyond, rates are computed anew only so often in the least time that the phase can take.
constexpr std::size_t exact_flows = 4096;
constexpr double refills = 500;

constexpr std::uint32_t no_flow = std::numeric_limits<std::uint32_t>::max();

} // namespace

/// Walks from event to event; an event is a start or a finish, or several at one moment.
class FlowModel::Simulation {
public:
  Simulation(const Network &network, const RankTraffic &traffic)
      : network_(network), traffic_(traffic), system_(network.links) {}

  double run(const Assignment &device_of_rank, double give_up_s) {
    if (traffic_.flows.empty())
      return 0;
    build(device_of_rank);
    if (system_.lower_bound() > give_up_s)
      return system_.lower_bound();
    while (next_start_ < by_start_.size() || !running_.empty()) {
      if (running_.empty())
        now_ = std::max(now_, start_[by_start_[next_start_]]);
      if (now_ > give_up_s)
        return now_;
      start_due_flows();
      if (running_.empty())
        continue;
      system_.fill();
      advance();
    }
    return *std::max_element(finish_.begin(), finish_.end());
  }

  FlowTimes times(const Assignment &device_of_rank) {
    FlowTimes result;
    if (traffic_.flows.empty())
      return result;
    result.seconds = run(device_of_rank, unlimited);
    result.finish_s = finish_;
    const auto last = std::max_element(finish_.begin(), finish_.end());
    result.last_flow = static_cast<std::uint32_t>(last - finish_.begin());
    result.bottleneck = system_.limit(result.last_flow);
    return result;
  }

private:
  void build(const Assignment &device_of_rank) {
    const std::size_t flows = traffic_.flows.size();
    system_.reset(flows);
    start_.resize(flows);
    finish_.resize(flows);
    remaining_.resize(flows);
    by_start_.clear();
    running_.clear();
    next_start_ = 0;
    now_ = 0;
    for (std::uint32_t f = 0; f < flows; ++f) {
      const Flow &flow = traffic_.flows[f];
      add(f, flow, device_of_rank[flow.source], device_of_rank[flow.target]);
    }
    system_.close();
    least_step_ = flows > exact_flows ? system_.lower_bound() / refills : 0;
    std::sort(by_start_.begin(), by_start_.end(), [this](std::uint32_t a, std::uint32_t b) {
      return start_[a] < start_[b] || (start_[a] == start_[b] && a < b);
    });
  }

  void add(std::uint32_t number, const Flow &flow, std::uint32_t from, std::uint32_t to) {
    const std::size_t pair = static_cast<std::size_t>(from) * network_.devices + to;
    start_[number] = flow.messages * network_.latency[pair];
    finish_[number] = start_[number];
    remaining_[number] = flow.bytes;
    system_.add_variable(flow.bytes, start_[number], network_.cap[pair]);
    if (!(flow.bytes > 0))
      return;
    for (const LinkUse &use : network_.route(from, to))
      system_.add_element(use);
    if (!std::isinf(system_.bound(number)))
      by_start_.push_back(number);
  }

  void start_due_flows() {
    for (; next_start_ < by_start_.size(); ++next_start_) {
      const std::uint32_t f = by_start_[next_start_];
      if (start_[f] > now_ * same_time)
        return;
      system_.start(f);
      running_.push_back(f);
    }
  }

  /// To the next event, at the rates of the latest fill; with a least step, at least that far.
  ///
  /// Every call starts or finishes a flow, whatever rounding does, so that a phase of n flows takes
  /// at most 2 n of them: the flow with the least time to go is finished by name, and the next
  /// start is due once the clock is put there.
  void advance() {
    double to_finish = unlimited;
    std::uint32_t soonest = no_flow;
    for (const std::uint32_t f : running_) {
      const double to_go = remaining_[f] / system_.rate(f);
      if (to_go < to_finish) {
        to_finish = to_go;
        soonest = f;
      }
    }
    const double to_start =
        next_start_ < by_start_.size() ? start_[by_start_[next_start_]] - now_ : unlimited;
    if (to_start < to_finish && to_start >= least_step_) {
      for (const std::uint32_t f : running_) {
        remaining_[f] = std::max(0.0, remaining_[f] - to_start * system_.rate(f));
      }
      now_ = start_[by_start_[next_start_]];
    } else {
      const double elapsed = std::max(std::min(to_start, to_finish), least_step_);
      finish_flows(elapsed, to_finish <= elapsed ? soonest : no_flow);
    }
  }

  /// `surely` finishes even if time x rate is less than what it has left: in seconds, a few bytes
  /// of 1e-308 are too little for a double to hold precisely, or at all.
  void finish_flows(double elapsed, std::uint32_t surely) {
    const double before = now_;
    now_ += elapsed;
    std::size_t kept = 0;
    for (const std::uint32_t f : running_) {
      const double rate = system_.rate(f);
      if (f == surely || remaining_[f] <= elapsed * same_time * rate) {
        finish_[f] = least_step_ > 0 ? std::min(now_, before + remaining_[f] / rate) : now_;
        system_.finish(f);
      } else {
        remaining_[f] -= elapsed * rate;
        running_[kept++] = f;
      }
    }
    running_.resize(kept);
  }

  const Network &network_;
  const RankTraffic &traffic_;
  MaxMinSystem system_;
  std::vector<double> start_, finish_, remaining_; // one per flow
  std::vector<std::uint32_t> by_start_;            // flows that move bytes, in order of start
  std::vector<std::uint32_t> running_;
  std::size_t next_start_ = 0;
  double now_ = 0;
  double least_step_ = 0; // 0: every event is a step of its own
};

FlowModel::FlowModel(const Network &network, const RankTraffic &traffic)
    : simulation_(std::make_unique<Simulation>(network, traffic)) {}
FlowModel::FlowModel(FlowModel &&) noexcept = default;
FlowModel &FlowModel::operator=(FlowModel &&) noexcept = default;
FlowModel::~FlowModel() = default;

double FlowModel::seconds(const Assignment &device_of_rank, double give_up_s) {
  return simulation_->run(device_of_rank, give_up_s);
}

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
