// SPDX-License-Identifier: MIT OR Apache-2.0
#include "certificate/job.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "bounds/gilmore_lawler.hpp"
#include "exact/subset_dp.hpp"

namespace toposeat {
namespace {

constexpr std::size_t most_known = 256; // placements whose figures are kept

constexpr double steady_nodes_per_s = 2e5; // a node takes about a microsecond
constexpr double least_effort = 0.02;      // seconds, however small the budget

Qap pinned_qap(const RankTraffic &traffic, const ReducedMachine &machine) {
  Qap qap = make_qap(traffic, machine.cost, machine.message_cost);
  qap.pinned = machine.pinned;
  qap.allowed = machine.allowed;
  return qap;
}

} // namespace

Job::Job(const MapRequest &asked, ReducedMachine &&seats, const Deadline &end)
    : request(asked), deadline(end), machine(std::move(seats)),
      qap(pinned_qap(*asked.traffic, machine)),
      loads{machine.network, *asked.traffic, machine.pinned, machine.allowed}, home(machine.home) {}

const LoadBounds &Job::load_bounds() const {
  if (!load_bounds_)
    load_bounds_ = toposeat::load_bounds(machine.network, *request.traffic);
  return *load_bounds_;
}

double Job::effort() const { return std::clamp(request.budget_s, least_effort, 60.0); }

Assignment Job::padded(const Assignment &placement) const {
  std::vector<bool> taken(devices(), false);
  for (const std::uint32_t device : placement)
    taken[device] = true;
  Assignment all = placement;
  for (std::uint32_t d = 0; d < devices(); ++d) {
    if (!taken[d])
      all.push_back(d);
  }
  return all;
}

Assignment Job::unpadded(const Assignment &placement) const {
  return {placement.begin(), placement.begin() + request.traffic->ranks};
}

double Job::value(Objective objective, const Assignment &placement) const {
  if (objective == Objective::congestion)
    return peak(placement).max_s;
  Figures &known = figures(placement);
  if (objective == Objective::cost) {
    if (!known.cost)
      known.cost = qap_cost(qap, padded(placement));
    return *known.cost;
  }
  if (!known.seconds)
    known.seconds = flow_model().seconds(placement);
  return *known.seconds;
}

double Job::mean_congestion(const Assignment &placement) const { return peak(placement).mean_s; }

double Job::seconds(const Assignment &placement, double give_up_s) const {
  return flow_model().seconds(placement, give_up_s);
}

Job::Figures &Job::figures(const Assignment &placement) const {
  if (known_.size() >= most_known && known_.count(placement) == 0)
    known_.clear();
  return known_[placement];
}

FlowModel &Job::flow_model() const {
  if (!flow_model_)
    flow_model_.emplace(machine.network, *request.traffic);
  return *flow_model_;
}

const Peak &Job::peak(const Assignment &placement) const {
  Figures &known = figures(placement);
  if (!known.peak) {
    if (!peak_model_)
      peak_model_.emplace(machine.network, *request.traffic);
    known.peak = peak_model_->of(placement);
  }
  return *known.peak;
}

bool Job::improves(const Assignment &placement) const {
  const double mine = value(request.objective, placement);
  const double theirs = value(request.objective, home);
  if (less_by_tolerance(mine, theirs))
    return true;
  return request.objective == Objective::congestion && !less_by_tolerance(theirs, mine) &&
         less_by_tolerance(mean_congestion(placement), mean_congestion(home));
}

std::uint64_t steady_nodes(const Job &job) {
  return static_cast<std::uint64_t>(steady_nodes_per_s * job.effort());
}

void Job::remember(const Assignment &placement, double seconds) const {
  figures(placement).seconds = seconds;
}

double timing_seconds(const RankTraffic &traffic) {
  const auto flows = static_cast<double>(traffic.flows.size());
  return 4e-9 * flows * (flows > 4096 ? 1500 : flows);
}

double congestion_bound(const Job &job) {
  double bound = job.load_bounds().congestion_s;
  if (const auto tree = link_tree_relaxed(job.machine.network)) {
    const auto best = min_max_on_tree(*tree, job.qap);
    if (best)
      bound = std::max(bound, best->value);
  }
  return bound;
}

namespace {

/// A few message counts of the flows that carry bytes: the fewest, and quartiles.
std::set<double> message_counts(const RankTraffic &traffic) {
  std::vector<double> counts;
  for (const Flow &flow : traffic.flows) {
    if (flow.bytes > 0)
      counts.push_back(flow.messages);
  }
  std::sort(counts.begin(), counts.end());
  std::set<double> chosen;
  for (std::size_t quarter = 0; quarter < 4 && !counts.empty(); ++quarter)
    chosen.insert(counts[counts.size() * quarter / 4]);
  return chosen;
}

/// Least time in which separating links carry the flows of at least so many messages: none of these
/// starts before that many messages have taken the nearest route over the link.
double bound_of_heavy_flows(const Job &job, double messages) {
  const auto tree = link_tree_relaxed(job.machine.network, messages);
  if (!tree)
    return 0;
  Qap heavy = job.qap;
  for (const Flow &flow : job.request.traffic->flows) {
    if (flow.messages < messages)
      heavy.flow(flow.source, flow.target) = 0;
  }
  const auto best = min_max_on_tree(*tree, heavy);
  return best ? best->value : 0;
}

} // namespace

double time_bound(const Job &job, double congestion_s) {
  const double transfer = congestion_s > 0 ? congestion_s + job.load_bounds().start_s : 0;
  double bound = std::max(job.load_bounds().time_s, transfer);
  for (const double messages : message_counts(*job.request.traffic)) {
    if (messages > 0)
      bound = std::max(bound, bound_of_heavy_flows(job, messages));
  }
  return bound;
}

std::optional<double> quick_bound(const Job &job, Objective objective) {
  if (objective == Objective::congestion)
    return congestion_bound(job);
  if (objective == Objective::time)
    return time_bound(job, congestion_bound(job));
  if (job.may_enumerate() && !job.qap.has_second_term()) {
    if (const auto tree = cost_tree(job.qap)) {
      const auto best = min_sum_on_tree(*tree, job.qap);
      if (best)
        return best->value;
    }
  }
  return gilmore_lawler_bound(job.qap);
}

} // namespace toposeat
