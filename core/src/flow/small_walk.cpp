// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/lanes.hpp"
#include "base/least_of.hpp"
#include "flow/event_kernel.hpp"
#include "flow/flow_set.hpp"
#include "flow/message_times.hpp"
#include "flow/pair_constraints.hpp"
#include "flow/phase_walk.hpp"
#include "flow/running_flows.hpp"
#include "flow/small_filling.hpp"

namespace toposeat {
namespace {

/// Sets of flows are bits, and what is said of each flow is a lane of a vector.
template <std::size_t Words> class SmallWalk final : public PhaseWalk {
public:
  SmallWalk(const Network &network, const RankTraffic &traffic)
      : network_(network), traffic_(traffic), messages_(network, traffic), constraints_(network),
        filling_(constraints_) {
    for (auto *each : {&start_, &remaining_, &since_, &rate_, &until_, &paces_})
      each->fit(Set::most);
    std::fill_n(start_.data(), Set::most, unlimited);
    std::fill_n(until_.data(), Set::most, unlimited);
    finish_.resize(traffic.flows.size());
    motions_ = {traffic.flows.size(), remaining_.data(), since_.data(),
                rate_.data(),         until_.data(),     paces_.data()};
  }

  bool build(const Assignment &device_of_rank, bool bounded) override {
    filling_.reset(motions_.flows, bounded);
    bounded_ = bounded;
    std::fill_n(rate_.data(), motions_.flows, 0.0);
    for (auto *each : {&start_, &until_}) // a walk that gave up leaves some
      std::fill_n(each->data(), motions_.flows, unlimited);
    waiting_ = {};
    running_ = {};
    now_ = 0;
    at_once_ = 0;
    for (std::uint32_t f = 0; f < motions_.flows; ++f) {
      const Flow &flow = traffic_.flows[f];
      if (!add(f, flow, device_of_rank[flow.source], device_of_rank[flow.target]))
        return false;
    }
    filling_.close();
    find_next_start();
    return true;
  }

  double run(double give_up_s, const Deadline *deadline) override {
    const bool bounded = give_up_s < unlimited;
    if (const LowerBound least(filling_.lower_bound()); least.surely_exceeds(give_up_s))
      return least.safe();
    for (std::size_t events = 0; !waiting_.empty() || !running_.empty(); ++events) {
      if (deadline != nullptr && events % between_looks == between_looks - 1 && deadline->expired())
        return unlimited;
      if (running_.empty())
        wait_for_start();
      if (now_ > give_up_s)
        return now_;
      if (next_start_ <= now_ * same_time)
        start_due_flows();
      const auto filling = filling_.begin_filling();
      const NextFinish<Words> next = EventKernel<Words>::step(
          filling.state, filling.growing, filling.first, motions_, now_, next_start_);
      filling_.end_filling(next.rounds);
      if (bounded) {
        const double then = std::min(next.at, next_start_);
        const LowerBound end(std::max(filling_.lower_bound_after(then - now_),
                                      EventKernel<Words>::end_alone(motions_, then)));
        if (end.surely_exceeds(give_up_s))
          return end.safe();
      }
      if (next_start_ < next.at)
        now_ = next_start_;
      else
        finish_flows(next);
    }
    return std::max(at_once_, now_);
  }

  FlowTimes times() override { return run_to_end(*this, finish_, limit_); }

private:
  using Set = FlowSet<Words>;

  bool add(std::uint32_t number, const Flow &flow, std::uint32_t from, std::uint32_t to) {
    const std::size_t place = static_cast<std::size_t>(from) * network_.devices + to;
    const MessageTime alone = messages_.of(number, place);
    const PairConstraints::Pair *pair = flow.bytes > 0 ? &constraints_.of(from, to) : nullptr;
    if (pair != nullptr && pair->repeats)
      return false;
    filling_.add(flow.bytes, alone.latency, alone.rate, pair);
    finish_[number] = alone.latency;
    remaining_[number] = flow.bytes;
    paces_[number] = bounded_ ? 1 / filling_.bound(number) : 0;
    if (pair != nullptr && !std::isinf(filling_.bound(number))) {
      waiting_.insert(number);
      start_[number] = alone.latency;
    } else {
      at_once_ = std::max(at_once_, alone.latency);
    }
    return true;
  }

  /// Those that started, like those that never move, have no start.
  void find_next_start() { next_start_ = least_of({start_.data(), motions_.flows}); }

  void wait_for_start() {
    const double then = std::max(now_, next_start_);
    if (bounded_)
      filling_.idle(then - now_);
    now_ = then;
  }

  void start_due_flows() {
    const Set due =
        EventKernel<Words>::not_later(start_.data(), motions_.flows, now_ * same_time) & waiting_;
    filling_.start(due);
    waiting_ = waiting_.without(due);
    running_ = running_ | due;
    due.for_each([&](std::uint32_t flow) { start_[flow] = unlimited; });
    find_next_start();
  }

  void finish_flows(const NextFinish<Words> &next) {
    now_ = next.at;
    const Set due = next.flows & running_;
    due.for_each([&](std::uint32_t flow) {
      until_[flow] = unlimited;
      finish_[flow] = now_;
      if (!limit_.empty())
        limit_[flow] = filling_.limit(flow);
    });
    filling_.finish(due);
    running_ = running_.without(due);
  }

  const Network &network_;
  const RankTraffic &traffic_;
  MessageTimes messages_;
  PairConstraints constraints_;
  SmallFilling<Words> filling_;
  LaneArray<double> start_, remaining_, since_, rate_, until_, paces_; // by flow
  Motions motions_;
  std::vector<double> finish_;
  std::vector<std::uint32_t> limit_; // of each flow as it finished; empty if nobody asks
  Set waiting_, running_;            // of those that move bytes
  double next_start_ = 0;
  double now_ = 0;
  bool bounded_ = false;
  double at_once_ = 0; // the last finish of those that do not
};

} // namespace

std::unique_ptr<PhaseWalk> walk_of_few(const Network &network, const RankTraffic &traffic) {
  const std::size_t flows = traffic.flows.size();
  if (network.devices > PairConstraints::most_devices || flows > FlowSet<4>::most)
    return nullptr;
  if (flows > FlowSet<2>::most)
    return std::make_unique<SmallWalk<4>>(network, traffic);
  if (flows > FlowSet<1>::most)
    return std::make_unique<SmallWalk<2>>(network, traffic);
  return std::make_unique<SmallWalk<1>>(network, traffic);
}

} // namespace toposeat
