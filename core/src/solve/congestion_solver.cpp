// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>

#include "loads/limit_proof.hpp"
#include "solve/job.hpp"
#include "toposeat/cost/cost_search.hpp"
#include "toposeat/few/small_loads.hpp"
#include "toposeat/loads/swap_search.hpp"
#include "toposeat/tree/subset_dp.hpp"

namespace toposeat {
namespace {

constexpr std::size_t branched_devices = 24; // beyond, branching finds nothing in any sane time

std::uint64_t exchanges(const Job &job) {
  const auto n = static_cast<double>(job.devices());
  if (n <= max_small_loads)
    return 20; // enumeration finds what they miss
  const double affordable = 1e5 * job.effort();
  return static_cast<std::uint64_t>(
      n <= 32 ? std::min(affordable, 1200 * n * std::max(1.0, job.effort())) : affordable);
}

/// Least maximum first, then the least sum among placements that stay within it.
std::optional<Found> on_tree(const Job &job, const CutTree &tree) {
  Assignment start = job.padded(job.home);
  descend(job.qap, start);
  const double known = std::min(job.value(Objective::congestion, job.home),
                                job.value(Objective::congestion, job.unpadded(start)));
  const auto least = min_max_then_sum_on_tree(tree, job.qap, known * (1 + 1e-9));
  if (!least)
    return std::nullopt;
  return Found{job.unpadded(least->placement), least->value, "tree"};
}

/// Leaves some of the budget for the least sum.
BoundedAnswer prove_congestion(const Job &job, const Assignment &placement, double bound) {
  return prove_by_limits(job.branched_loads(), false, placement, bound, steady_nodes(job),
                         job.deadline.within(0.95 * job.deadline.left()));
}

} // namespace

Found solve_congestion(const Job &job) {
  if (job.may_enumerate() && (tree_scope.allowed || job.qap.allowed.empty())) {
    if (const auto tree = link_tree(job.machine.network)) {
      if (auto found = on_tree(job, *tree))
        return *found;
    }
  }
  double bound = congestion_bound(job);
  const bool branch = job.may_enumerate() && job.devices() <= branched_devices &&
                      (load_branching_handles_allowed || job.qap.allowed.empty());
  SwapOptions options;
  options.seed = job.request.seed;
  options.exchanges = exchanges(job);
  options.target = bound;
  const Deadline search_end =
      branch ? job.deadline.within(0.5 * job.request.budget_s) : job.deadline;
  Assignment start = job.padded(job.home);
  if (job.devices() <= 64)
    descend(job.qap, start);
  LoadAnswer found = search_congestion(job.loads, job.unpadded(start), options, search_end);
  if (branch && job.devices() > max_small_loads && limits_apply(job.loads)) {
    const BoundedAnswer proved = prove_congestion(job, found.placement, bound);
    found.placement = proved.placement;
    found.max_s = proved.value;
    bound = proved.lower_bound;
  }
  bound = stronger_congestion_bound(job, bound, found.max_s);
  if (!branch)
    return {found.placement, bound, "search"};
  if (job.devices() <= max_small_loads) {
    // For time the sum decides between equals alone: a few steps will do.
    const double sum_below = job.request.objective == Objective::congestion
                                 ? job.value(Objective::congestion, job.home)
                                 : 0;
    const BoundedAnswer least =
        least_congestion(job.branched_loads(), found.placement, bound, job.deadline, {}, sum_below);
    return {least.placement, least.lower_bound, "branch and bound"};
  }
  const BoundedAnswer proved =
      branch_on_congestion(job.branched_loads(), found.placement, bound, job.deadline);
  return {proved.placement, proved.lower_bound, "branch and bound"};
}

} // namespace toposeat
