// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>

#include "certificate/job.hpp"
#include "exact/limit_proof.hpp"
#include "exact/subset_dp.hpp"
#include "search/congestion_search.hpp"
#include "toposeat/search/cost_search.hpp"

namespace toposeat {
namespace {

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

/// Exchanges that take most of the budget, on a core of 2024.
std::uint64_t affordable(const Job &job) {
  const auto flows = static_cast<double>(job.request.traffic->flows.size());
  return static_cast<std::uint64_t>(8e5 * job.effort() / (0.1 + flows / 300));
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
  BoundedAnswer known;
  known.lower_bound = congestion_bound(job);
  known.placement = job.padded(job.home);
  if (job.devices() <= 64)
    descend(job.qap, known.placement);
  known.placement = job.unpadded(known.placement);
  SwapOptions options;
  options.seed = job.request.seed;
  const auto search = [&](std::uint64_t exchanges) {
    options.exchanges = exchanges;
    options.target = known.lower_bound;
    return search_congestion(job.loads, known.placement, options, job.deadline).placement;
  };
  if (!prove)
    return {search(SwapOptions{}.exchanges), known.lower_bound, "search"};
  // A search as short as proofs of so few devices are; if there is none, one that ends by itself.
  const std::uint64_t pairs = job.devices() * job.devices();
  for (const bool quick : {true, false}) {
    const Assignment found = search(quick ? pairs * pairs / 4 : affordable(job));
    known = prove_by_limits(job.loads, false, found, known.lower_bound, steady_nodes(job), quick,
                            job.deadline);
    if (known.proved)
      break;
  }
  return {known.placement, known.lower_bound, "limits"};
}

} // namespace toposeat
