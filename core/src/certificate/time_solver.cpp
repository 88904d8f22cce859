// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <optional>
#include <vector>

#include "certificate/job.hpp"
#include "exact/limit_proof.hpp"
#include "exact/subset_dp.hpp"
#include "search/congestion_search.hpp"
#include "toposeat/search/cost_search.hpp"

namespace toposeat {
namespace {

constexpr std::size_t always_timed = 24; // devices up to which placements are quickly timed
constexpr double few_timings = 64;       // in the whole budget: too few for all that a search sees
constexpr std::uint64_t untimed_moves = 4; // times those of a search that times what it sees
constexpr double small_gap = 0.01; // what little a longer search could gain is not worth its time

/// How much of each search feeds the pool, and how many placements are timed afterwards.
struct Effort {
  std::uint64_t moves;
  std::uint64_t exchanges;
  std::uint64_t timings;
};

/// Devices that have seats; `Job::devices` are seats.
std::size_t real_devices(const Job &job) {
  std::vector<std::uint32_t> devices = job.machine.device_of_seat;
  std::sort(devices.begin(), devices.end());
  return static_cast<std::size_t>(std::unique(devices.begin(), devices.end()) - devices.begin());
}

/// Whether branching is quick, so that a short search will do before it.
bool is_small(const Job &job) {
  return job.devices() <= 8 || (job.request.traffic->ranks <= 8 && real_devices(job) <= 8);
}

Effort effort_of(const Job &job) {
  if (is_small(job))
    return {200, 300, 200};
  const double scale = job.effort();
  const auto n = static_cast<double>(job.devices());
  const auto count = [&](double all) { return static_cast<std::uint64_t>(all * scale); };
  return {count(std::min(300 * n, 1e7 / (n * n))), count(std::min(600 * n, 4e4)),
          count(std::min(200 * n, 2e4 * 16 / n))};
}

/// The placement of least cost, where distances are those of a tree and it can be proved.
std::optional<Assignment> cheapest_on_tree(const Job &job) {
  if (!job.may_enumerate() || !tree_scope.covers(job.qap))
    return std::nullopt;
  const auto tree = cost_tree(job.qap);
  if (!tree)
    return std::nullopt;
  const auto best = min_sum_on_tree(*tree, job.qap);
  return best ? std::optional(best->placement) : std::nullopt;
}

void add_cost_candidates(const Job &job, const Effort &effort, CandidatePool &candidates) {
  // Timing one placement of a large job takes a good part of the budget.
  const auto add = [&](const Assignment &placement, double /*cost*/) {
    if (!job.deadline.expired())
      candidates.add(job.unpadded(placement));
  };
  const Assignment start = job.padded(job.home);
  if (const auto best = cheapest_on_tree(job))
    add(*best, 0);
  SearchOptions options;
  options.seed = job.request.seed;
  options.moves = effort.moves;
  options.visit = add;
  add(search_cost(job.qap, start, options, job.deadline.within(0.3 * job.request.budget_s))
          .placement,
      0);
}

/// Returns the best proved lower bound of the maximum congestion.
double add_congestion_candidates(const Job &job, const Effort &effort, CandidatePool &candidates) {
  double bound = congestion_bound(job);
  const bool tree = link_tree(job.machine.network).has_value();
  if (const auto found = least_busy_on_tree(job)) {
    candidates.add(found->placement);
    bound = std::max(bound, found->lower_bound.value_or(0));
  }
  SwapOptions options;
  options.seed = job.request.seed;
  options.exchanges = effort.exchanges;
  options.visit = [&](const Assignment &placement) {
    if (!job.deadline.expired())
      candidates.add(placement);
  };
  LoadAnswer least{job.home, unlimited, unlimited};
  for (const Assignment &start : {job.home, Assignment(candidates.best())}) {
    if (job.deadline.expired())
      break;
    const LoadAnswer found = search_congestion(job.loads, start, options,
                                               job.deadline.within(0.2 * job.request.budget_s));
    options.visit(found.placement);
    if (found.max_s < least.max_s)
      least = found;
  }
  if (job.may_enumerate() && limits_apply(job.loads) && !tree) {
    const BoundedAnswer proved = prove_by_limits(job.loads, false, least.placement, bound,
                                                 steady_nodes(job) / 8, true, job.deadline);
    options.visit(proved.placement);
    return proved.lower_bound;
  }
  return bound;
}
/// Returns the best proved lower bound; what is better than the candidates becomes one of them.
double prove_time(const Job &job, CandidatePool &candidates, double bound) {
  const BoundedAnswer proved = prove_by_limits(job.loads, true, candidates.best(), bound,
                                               steady_nodes(job), true, job.deadline);
  candidates.add(proved.placement);
  return proved.lower_bound;
}

Found search_time(const Job &job, CandidatePool &candidates) {
  const Effort effort = effort_of(job);
  double bound = job.load_bounds().time_s;
  const auto open = [&] { return less_by_tolerance(bound, candidates.best_score().flow_s); };
  if (open()) {
    add_cost_candidates(job, effort, candidates);
    const double links = add_congestion_candidates(job, effort, candidates);
    bound = std::max(bound, time_bound(job, links));
  }
  if (open())
    candidates.refine(3, effort.timings, job.deadline);
  const bool by_limits = job.may_enumerate() && limits_apply(job.loads);
  if (open() && by_limits)
    bound = prove_time(job, candidates, bound);
  const double proved_s = candidates.best_score().flow_s;
  if (open() && !(is_small(job) && by_limits)) {
    candidates.iterate(job.request.seed, bound * (1 + small_gap), job.deadline);
    if (open() && by_limits && less_by_tolerance(candidates.best_score().flow_s, proved_s))
      bound = prove_time(job, candidates, bound);
  }
  if (open() && by_limits) // what an ended proof has found may gain by one more exchange
    candidates.refine(1, effort.timings, job.deadline);
  if (by_limits)
    return {candidates.best(), bound, "limits"};
  return {candidates.best(), bound, open() ? "search" : "search met a bound"};
}

struct Candidate {
  double max_s; // of its busiest link: no placement is faster
  Assignment placement;
};

/// What searches for cost and congestion end with, least busy links first. None is timed.
std::vector<Candidate> untimed_candidates(const Job &job, const Deadline &deadline) {
  const Effort effort = effort_of(job);
  std::vector<Candidate> found;
  const auto add = [&](const Assignment &placement) {
    found.push_back({job.value(Objective::congestion, placement), placement});
  };
  if (const auto best = cheapest_on_tree(job))
    add(job.unpadded(*best));
  if (const auto best = least_busy_on_tree(job))
    add(best->placement);
  SearchOptions by_cost;
  by_cost.seed = job.request.seed;
  by_cost.moves = untimed_moves * effort.moves;
  add(job.unpadded(
      search_cost(job.qap, job.padded(job.home), by_cost, deadline.within(0.6 * deadline.left()))
          .placement));
  SwapOptions by_links;
  by_links.seed = job.request.seed;
  by_links.exchanges = effort.exchanges;
  for (const Assignment &start : {Assignment(found.back().placement), job.home}) {
    if (!deadline.expired())
      add(search_congestion(job.loads, start, by_links, deadline.within(0.6 * deadline.left()))
              .placement);
  }
  std::sort(found.begin(), found.end(), [](const Candidate &a, const Candidate &b) {
    return a.max_s != b.max_s ? a.max_s < b.max_s : a.placement < b.placement;
  });
  return found;
}

/// Of the whole budget: the job's own deadline leaves time for a timing that begins before it.
Deadline end_of_budget(const Job &job) {
  const double budget_s = job.request.budget_s;
  const double kept = std::min(0.75 * budget_s, timing_seconds(*job.request.traffic));
  return Deadline::in(job.deadline.left() + kept, job.request.stop);
}

/// For jobs of which the budget times only a few placements: it times the default, which tells how
/// long that takes here, searches without timing any for as long as leaves time for two more, and
/// then times the likeliest. What is not timed by the end of the budget is not taken.
Found time_the_likeliest(const Job &job) {
  const Deadline end = end_of_budget(job);
  const double begun = end.left();
  CandidatePool candidates(job.loads, job.home);
  job.remember(job.home, candidates.best_score().flow_s);
  candidates.stop_at(end);
  const double one_timing = begun - end.left();
  const double searched_s =
      std::clamp(end.left() - 2 * one_timing, 0.25 * end.left(), 0.5 * job.request.budget_s);
  const auto in_time = [&] { return end.left() > one_timing; };
  bool timed = false;
  for (const Candidate &each : untimed_candidates(job, end.within(searched_s))) {
    const bool hopeless = !less_by_tolerance(each.max_s, candidates.best_score().flow_s);
    if (hopeless || end.expired() || (timed && !in_time()))
      break;
    candidates.add(each.placement);
    timed = true;
  }
  const double bound = std::max(job.load_bounds().time_s, time_bound(job, congestion_bound(job)));
  const auto open = [&] { return less_by_tolerance(bound, candidates.best_score().flow_s); };
  if (open() && in_time()) {
    candidates.refine(3, effort_of(job).timings, job.deadline);
    candidates.iterate(job.request.seed, bound * (1 + small_gap), job.deadline);
  }
  job.remember(candidates.best(), candidates.best_score().flow_s);
  return {candidates.best(), bound, open() ? "search" : "search met a bound"};
}

} // namespace

std::optional<Found> least_busy_on_tree(const Job &job) {
  const bool tree = link_tree(job.machine.network).has_value();
  if (!job.may_enumerate() || !tree || !(tree_scope.allowed || job.qap.allowed.empty()))
    return std::nullopt;
  return solve_congestion(job);
}

Found solve_time(const Job &job) {
  if (job.devices() > always_timed &&
      job.request.budget_s < few_timings * timing_seconds(*job.request.traffic))
    return time_the_likeliest(job);
  CandidatePool candidates(job.loads, job.home);
  job.remember(job.home, candidates.best_score().flow_s);
  Found found = search_time(job, candidates);
  job.remember(candidates.best(), candidates.best_score().flow_s);
  return found;
}

} // namespace toposeat
