// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>

#include "job.hpp"
#include "toposeat/subset_dp.hpp"
#include "toposeat/tabu.hpp"

namespace toposeat {
namespace {

constexpr double pairs_per_second = 1e8; // swap deltas that any machine of today updates

/// Moves that decide the answer: in proportion to the budget, so that a seed gives one answer
/// wherever the budget suffices.
std::uint64_t tabu_moves(const Job &job, double share) {
  const auto n = static_cast<double>(job.devices());
  const double affordable = share * job.effort() * pairs_per_second / (n * n / 2);
  const double useful =
      n <= 8 ? 40 * n : (n <= 32 ? 3000 * n * std::clamp(job.effort(), 1.0, 4.0) : 1e12);
  return static_cast<std::uint64_t>(std::max(10 * n, std::min(affordable, useful)));
}

Found on_tree(const Job &job, const CutTree &tree) {
  Assignment start = job.padded(job.home);
  const double upper = descend(job.qap, start);
  const auto best = min_sum_on_tree(tree, job.qap, upper);
  const Assignment &placement = best ? best->placement : start;
  return {job.unpadded(placement), qap_cost(job.qap, placement), "tree"};
}

} // namespace

Found solve_cost(const Job &job) {
  if (job.may_enumerate() && tree_scope.covers(job.qap)) {
    if (const auto tree = cost_tree(job.qap))
      return on_tree(job, *tree);
  }
  const bool branch = job.may_enumerate() && job.devices() <= max_branched_devices &&
                      branch_and_bound_scope.covers(job.qap);
  const std::optional<double> bound =
      branch && job.devices() <= 8 ? std::nullopt : quick_bound(job, Objective::cost);
  TabuOptions options;
  options.seed = job.request.seed;
  options.moves = tabu_moves(job, branch ? 0.3 : 0.9);
  options.target = bound ? *bound * (1 + 1e-9) : -1;
  const Deadline search_end =
      branch ? job.deadline.within(0.5 * job.request.budget_s) : job.deadline;
  const CostAnswer found = tabu_search(job.qap, job.padded(job.home), options, search_end);
  if (!branch)
    return {job.unpadded(found.placement), bound, "search"};
  const BoundedAnswer proved = branch_and_bound(job.qap, found.placement, job.deadline);
  return {job.unpadded(proved.placement), proved.lower_bound, "branch and bound"};
}

} // namespace toposeat
