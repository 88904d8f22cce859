// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/flow/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <stdexcept>
#include <string>
#include <utility>

#include "flow/max_min.hpp"
#include "flow/message_times.hpp"
#include "flow/running_flows.hpp"
#include "toposeat/flow/flow.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {
namespace {

constexpr std::size_t most_flows = std::size_t{1} << 22U;

/// Flows of one phase by rank: those of rank r are flows[begin[r] .. begin[r + 1]).
struct FlowsOfRanks {
  std::vector<std::uint32_t> begin;
  std::vector<std::uint32_t> flows;

  explicit FlowsOfRanks(const RankTraffic &phase) : begin(phase.ranks + std::size_t{1}, 0) {
    for (const Flow &flow : phase.flows) {
      ++begin[flow.source + std::size_t{1}];
      ++begin[flow.target + std::size_t{1}];
    }
    for (std::uint32_t r = 0; r < phase.ranks; ++r)
      begin[r + std::size_t{1}] += begin[r];
    flows.resize(begin.back());
    std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
    for (std::uint32_t f = 0; f < phase.flows.size(); ++f) {
      flows[next[phase.flows[f].source]++] = f;
      flows[next[phase.flows[f].target]++] = f;
    }
  }

  [[nodiscard]] std::uint32_t count(std::uint32_t rank) const {
    return begin[rank + std::size_t{1}] - begin[rank];
  }
};

/// Iterated mode. A step is one phase of one repeat; its flows are numbered from `first` on.
class Iteration {
public:
  Iteration(const Network &network, const Schedule &schedule, const Assignment &device_of_rank)
      : network_(network), schedule_(schedule), system_(network.links, network.pair_limits),
        ranks_(static_cast<std::uint32_t>(device_of_rank.size())),
        steps_(schedule.phases.size() * schedule.repeats) {
    for (const RankTraffic &phase : schedule.phases)
      of_ranks_.emplace_back(phase);
    build(device_of_rank);
  }

  ScheduleTimes run() {
    for (std::uint32_t rank = 0; rank < ranks_; ++rank)
      enter(rank, 0);
    while (!pending_.empty() || !running_.empty()) {
      if (running_.empty())
        now_ = std::max(now_, pending_.top().first);
      start_due_flows();
      if (running_.empty())
        continue;
      for (const std::uint32_t flow : system_.fill())
        running_.change_rate(flow, system_.rate(flow), now_);
      advance();
    }
    ScheduleTimes result;
    for (std::size_t step = 0; step < steps_; ++step) {
      const bool empty = step > 0 && phase_of(step).flows.empty();
      result.phase_end_s.push_back(empty ? result.phase_end_s.back() : end_[step]);
      result.seconds = std::max(result.seconds, end_[step]);
    }
    return result;
  }

private:
  void build(const Assignment &device_of_rank) {
    std::size_t flows = 0;
    for (const RankTraffic &phase : schedule_.phases)
      flows += phase.flows.size();
    flows *= schedule_.repeats;
    system_.reset(flows);
    running_.reset(flows);
    waiting_.assign(flows, 2);
    for (std::size_t step = 0; step < steps_; ++step) {
      first_.push_back(static_cast<std::uint32_t>(step_of_.size()));
      const RankTraffic &phase = phase_of(step);
      const MessageTimes messages(network_, phase);
      for (std::uint32_t f = 0; f < phase.flows.size(); ++f)
        add(phase.flows[f], f, messages, step, device_of_rank);
    }
    system_.close();
    end_.assign(steps_, 0);
    at_.assign(ranks_, 0);
    left_.assign(ranks_, 0);
  }

  void add(const Flow &flow, std::uint32_t number, const MessageTimes &messages, std::size_t step,
           const Assignment &device_of_rank) {
    const std::uint32_t from = device_of_rank[flow.source];
    const std::uint32_t to = device_of_rank[flow.target];
    const std::size_t pair = from * std::size_t{network_.devices} + to;
    const MessageTime alone = messages.of(number, pair);
    const auto id = static_cast<std::uint32_t>(step_of_.size());
    step_of_.push_back(static_cast<std::uint32_t>(step));
    latency_.push_back(alone.latency);
    running_.set_bytes(id, flow.bytes);
    system_.add_variable(flow.bytes, 0, alone.rate);
    if (flow.bytes > 0) {
      for (const LinkUse &use : network_.route(from, to))
        system_.add_element(use);
      if (const std::int32_t limit = network_.limit(pair); limit != none_of_pair)
        system_.add_limit(static_cast<std::size_t>(limit));
    }
    moves_.push_back(flow.bytes > 0 && !std::isinf(system_.bound(id)) ? 1 : 0);
  }

  [[nodiscard]] const RankTraffic &phase_of(std::size_t step) const {
    return schedule_.phases[step % schedule_.phases.size()];
  }
  [[nodiscard]] const Flow &flow_of(std::uint32_t id) const {
    const std::uint32_t step = step_of_[id];
    return phase_of(step).flows[id - first_[step]];
  }

  /// The rank comes to `step`, or to the first one from there on in which it has flows.
  void enter(std::uint32_t rank, std::size_t step) {
    while (step < steps_ && of_ranks_[step % of_ranks_.size()].count(rank) == 0)
      ++step;
    at_[rank] = step;
    if (step == steps_)
      return;
    const FlowsOfRanks &own = of_ranks_[step % of_ranks_.size()];
    left_[rank] = own.count(rank);
    for (std::uint32_t i = own.begin[rank]; i < own.begin[rank + std::size_t{1}]; ++i) {
      const std::uint32_t id = first_[step] + own.flows[i];
      if (--waiting_[id] == 0)
        pending_.emplace(now_ + latency_[id], id);
    }
  }

  void start_due_flows() {
    while (!pending_.empty() && pending_.top().first <= now_ * same_time) {
      const std::uint32_t id = pending_.top().second;
      pending_.pop();
      if (moves_[id] == 0) {
        done(id);
        continue;
      }
      system_.start(id);
      running_.start(id, now_);
    }
  }

  void advance() {
    const double next_start = pending_.empty() ? unlimited : pending_.top().first;
    const double next_finish = running_.next_finish();
    now_ = std::min(next_start, next_finish);
    if (next_start < next_finish)
      return;
    finished_.clear();
    running_.finish(now_, [&](std::uint32_t id, double /*at*/) { finished_.push_back(id); });
    for (const std::uint32_t id : finished_) {
      system_.finish(id);
      done(id);
    }
  }

  void done(std::uint32_t id) {
    double &end = end_[step_of_[id]];
    end = std::max(end, now_);
    const Flow &flow = flow_of(id);
    for (const std::uint32_t rank : {flow.source, flow.target}) {
      if (--left_[rank] == 0)
        enter(rank, at_[rank] + 1);
    }
  }

  using Start = std::pair<double, std::uint32_t>; // when, and which flow

  const Network &network_;
  const Schedule &schedule_;
  MaxMinSystem system_;
  std::uint32_t ranks_;
  std::size_t steps_;
  std::vector<FlowsOfRanks> of_ranks_; // by phase
  std::vector<std::uint32_t> first_;   // flow of each step

  // Flows of all steps.
  std::vector<std::uint32_t> step_of_;
  std::vector<double> latency_;
  std::vector<char> moves_;   // bytes, at a rate that something limits
  std::vector<char> waiting_; // for so many of its ranks
  RunningFlows running_;
  std::priority_queue<Start, std::vector<Start>, std::greater<>> pending_; // issued, not started
  std::vector<std::uint32_t> finished_;

  std::vector<std::size_t> at_;     // step of each rank
  std::vector<std::uint32_t> left_; // flows of it that are not done
  std::vector<double> end_;         // of each step
  double now_ = 0;
};

ScheduleTimes with_barriers(const Network &network, const Schedule &schedule,
                            const Assignment &device_of_rank) {
  std::vector<double> times;
  times.reserve(schedule.phases.size());
  for (const RankTraffic &phase : schedule.phases)
    times.push_back(FlowModel(network, phase).seconds(device_of_rank));
  ScheduleTimes result;
  for (std::uint32_t repeat = 0; repeat < schedule.repeats; ++repeat) {
    for (const double time : times) {
      result.seconds += time;
      result.phase_end_s.push_back(result.seconds);
    }
  }
  return result;
}

} // namespace

void Schedule::validate() const {
  std::size_t flows = 0;
  for (const RankTraffic &phase : phases) {
    phase.validate();
    if (phase.ranks != phases.front().ranks)
      throw std::invalid_argument("phases differ in their number of ranks");
    flows += phase.flows.size();
  }
  if (flows > most_flows || (flows > 0 && repeats > most_flows / flows) || repeats > most_flows ||
      (!phases.empty() && repeats > most_flows / phases.size()))
    throw std::invalid_argument("a schedule has at most 2^22 flows over all repeats");
}

ScheduleTimes schedule_times(const Network &network, const Schedule &schedule,
                             const Assignment &device_of_rank, bool barrier) {
  schedule.validate();
  if (schedule.phases.empty())
    return {};
  check_assignment(network, schedule.phases.front().ranks, device_of_rank);
  if (barrier)
    return with_barriers(network, schedule, device_of_rank);
  return Iteration(network, schedule, device_of_rank).run();
}

} // namespace toposeat
