// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>

#include "certificate/job.hpp"
#include "exact/limit_proof.hpp"
#include "exact/subset_dp.hpp"
#include "search/congestion_search.hpp"
#include "toposeat/search/cost_search.hpp"

namespace toposeat {
namespace {

std::uint64_t exchanges(const Job &job) {
  const auto n = static_cast<double>(job.devices());
  if (n <= 8)
    return 600; // the proof finds what they miss
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

} // namespace

Found solve_congestion(const Job &job) {
  if (job.may_enumerate() && (tree_scope.allowed || job.qap.allowed.empty())) {
    if (const auto tree = link_tree(job.machine.network)) {
      if (auto found = on_tree(job, *tree))
        return *found;
    }
  }
  const bool prove = job.may_enumerate() && limits_apply(job.loads);
  SwapOptions options;
  options.seed = job.request.seed;
  options.exchanges = exchanges(job);
  options.target = congestion_bound(job);
  Assignment start = job.padded(job.home);
  if (job.devices() <= 64)
    descend(job.qap, start);
  const LoadAnswer found =
      search_congestion(job.loads, job.unpadded(start), options,
                        prove ? job.deadline.within(0.5 * job.request.budget_s) : job.deadline);
  if (!prove)
    return {found.placement, options.target, "search"};
  const BoundedAnswer proved = prove_by_limits(job.loads, false, found.placement, options.target,
                                               steady_nodes(job), job.deadline);
  return {proved.placement, proved.lower_bound, "limits"};
}

} // namespace toposeat
