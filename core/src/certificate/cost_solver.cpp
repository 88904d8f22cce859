// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>

#include "certificate/job.hpp"
#include "exact/branch_and_bound.hpp"
#include "exact/subset_dp.hpp"
#include "exact/two_blocks.hpp"
#include "toposeat/search/cost_search.hpp"

namespace toposeat {
namespace {

constexpr std::size_t quickly_searched = 16; // devices for which a few milliseconds suffice
constexpr double short_patience = 0.6;       // of walks there; measured, see ADR 0009

/// Moves that decide the answer: in proportion to the budget, so that a seed gives one answer
/// wherever the budget suffices.
std::uint64_t search_moves(const Job &job, double share) {
  const auto n = static_cast<double>(job.devices());
  const double seconds_per_move = 4e-7 + 4e-10 * n * n; // on a busy core of 2024, see ADR 0006
  const double affordable = share * job.effort() / seconds_per_move;
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

CostAnswer search(const Job &job, const Assignment &start, std::uint64_t moves, double target,
                  const Deadline &deadline, SearchOptions options = {}) {
  options.seed = job.request.seed;
  options.moves = moves;
  options.target = target;
  return search_cost(job.qap, start, options, deadline);
}

/// A short search, then the proof; the long search only if the proof is not finished by then. On
/// up to 16 devices the short one nearly always has the optimum, and branching finds what it
/// missed: kicks after walks of few exchanges find it sooner there than what suits larger machines.
Found proved_as_far_as_possible(const Job &job) {
  const auto blocks = two_blocks(job.qap);
  const bool small = job.devices() <= quickly_searched;
  const double target = small ? -1 : quick_bound(job, Objective::cost).value_or(-1) * (1 + 1e-9);
  const std::uint64_t long_search = search_moves(job, 0.3);
  const std::uint64_t moves =
      small ? std::min<std::uint64_t>(long_search, (blocks ? 60 : 250) * job.devices())
            : long_search;
  SearchOptions options;
  if (small)
    options.patience = short_patience;
  const Deadline half = job.deadline.within(0.5 * job.request.budget_s);
  const CostAnswer found = search(job, job.padded(job.home), moves, target, half, options);
  const bool all_time = !small || job.request.method == Method::exact;
  const Deadline proof_end =
      all_time ? job.deadline : job.deadline.within(0.7 * job.request.budget_s);
  BoundedAnswer proved = blocks ? solve_two_blocks(job.qap, *blocks, found.placement, proof_end)
                                : branch_and_bound(job.qap, found.placement, proof_end);
  if (!proved.proved && !all_time) {
    const CostAnswer longer =
        search(job, proved.placement, long_search, proved.lower_bound * (1 + 1e-9), job.deadline);
    proved.placement = longer.placement;
  }
  return {job.unpadded(proved.placement), proved.lower_bound,
          blocks ? "two blocks" : "branch and bound"};
}

} // namespace

Found solve_cost(const Job &job) {
  if (job.may_enumerate() && tree_scope.covers(job.qap)) {
    if (const auto tree = cost_tree(job.qap))
      return on_tree(job, *tree);
  }
  if (job.may_enumerate() && job.devices() <= max_branched_devices &&
      branch_and_bound_scope.covers(job.qap))
    return proved_as_far_as_possible(job);
  const std::optional<double> bound = quick_bound(job, Objective::cost);
  const CostAnswer found = search(job, job.padded(job.home), search_moves(job, 0.9),
                                  bound ? *bound * (1 + 1e-9) : -1, job.deadline);
  return {job.unpadded(found.placement), bound, "search"};
}

} // namespace toposeat
