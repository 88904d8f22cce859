// SPDX-License-Identifier: MIT OR Apache-2.0
#include "search/elite_pool.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/rng.hpp"
#include "toposeat/problem/congestion.hpp"

namespace toposeat {
namespace {

constexpr std::size_t most_candidates = 256;
constexpr double worse_anchors = 0.05;    // share of worse local optima that are kicked next
constexpr std::uint64_t idle_timings = 4; // per pair of ranks, that find nothing: then it ends
constexpr std::uint64_t unlimited_timings = std::numeric_limits<std::uint64_t>::max();

/// -1, 0 or 1 as a is less than, equal to or more than b, within the tolerance.
int compare(double a, double b) {
  if (less_by_tolerance(a, b))
    return -1;
  return less_by_tolerance(b, a) ? 1 : 0;
}

/// Random exchanges of two devices' ranks, one of which may be empty; pins are kept.
void kick(const LoadProblem &problem, Assignment &placement, Rng &rng) {
  const std::size_t most = std::max<std::size_t>(2, problem.network.devices / 3);
  for (std::size_t left = 2 + rng.below(most - 1); left > 0; --left) {
    const std::uint32_t rank = rng.below(placement.size());
    std::uint32_t &from = placement[rank];
    const std::uint32_t to = rng.below(problem.network.devices);
    const auto there = std::find(placement.begin(), placement.end(), to);
    const auto other = static_cast<std::size_t>(there - placement.begin());
    if (!problem.may_use(rank, to) || (there != placement.end() && !problem.may_use(other, from)))
      continue;
    if (there != placement.end())
      *there = from;
    from = to;
  }
}

} // namespace

bool Score::better_than(const Score &other) const {
  if (const int order = compare(flow_s, other.flow_s); order != 0)
    return order < 0;
  if (const int order = compare(max_s, other.max_s); order != 0)
    return order < 0;
  if (const int order = compare(mean_s, other.mean_s); order != 0)
    return order < 0;
  return moved < other.moved;
}

CandidatePool::CandidatePool(const LoadProblem &problem, Assignment home)
    : problem_(problem), model_(problem.network, problem.traffic), home_(std::move(home)) {
  add(home_);
}

Score CandidatePool::score(const Assignment &placement, double flow_s) const {
  const Congestion loads = congestion(problem_.network, problem_.traffic, placement);
  std::uint32_t moved = 0;
  for (std::size_t r = 0; r < placement.size(); ++r)
    moved += placement[r] != home_[r] ? 1U : 0U;
  return {flow_s, loads.max_s, loads.mean_s, moved};
}

void CandidatePool::add(const Assignment &placement) {
  if (placements_.size() >= most_candidates || !seen_.insert(placement).second)
    return;
  const double give_up = placements_.empty() ? unlimited : 1.5 * best_score().flow_s;
  const double flow_s = model_.seconds(placement, give_up);
  if (flow_s > give_up)
    return;
  placements_.push_back(placement);
  scores_.push_back(score(placement, flow_s));
  if (scores_.back().better_than(scores_[best_]))
    best_ = scores_.size() - 1;
}

void CandidatePool::refine(std::size_t starts, std::uint64_t timings, const Deadline &deadline) {
  std::vector<std::size_t> order(placements_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(scores_[a].flow_s, a) < std::pair(scores_[b].flow_s, b);
  });
  order.resize(std::min(order.size(), starts));
  for (const std::size_t each : order) {
    Assignment placement = placements_[each];
    double flow_s = scores_[each].flow_s;
    descend(placement, flow_s, timings / order.size(), deadline);
  }
}

void CandidatePool::iterate(std::uint64_t seed, double target, const Deadline &deadline) {
  Rng rng(seed);
  Assignment anchor = best();
  double anchor_s = best_score().flow_s;
  const std::uint64_t patience = idle_timings * home_.size() * home_.size();
  std::uint64_t used = 0;
  std::uint64_t found_at = 0;
  while ((used <= found_at + patience || used <= 2 * found_at) && !deadline.expired() &&
         less_by_tolerance(target, best_score().flow_s)) {
    const double before_s = best_score().flow_s;
    Assignment placement = anchor;
    kick(problem_, placement, rng);
    double flow_s = model_.seconds(placement);
    used += 1 + descend(placement, flow_s, unlimited_timings, deadline);
    if (less_by_tolerance(best_score().flow_s, before_s))
      found_at = used;
    if (less_by_tolerance(anchor_s, flow_s) && rng.unit() >= worse_anchors)
      continue;
    anchor = std::move(placement);
    anchor_s = flow_s;
  }
}

std::uint64_t CandidatePool::descend(Assignment &placement, double &flow_s, std::uint64_t most,
                                     const Deadline &deadline) {
  std::uint64_t used = 0;
  bool improved = true;
  while (improved) {
    improved = false;
    for_each_exchange(problem_, placement, [&](const Assignment &changed) {
      if (used == most || deadline.expired())
        return false;
      ++used;
      const double time = model_.seconds(changed, give_up_at(flow_s));
      if (!less_by_tolerance(time, flow_s))
        return true;
      flow_s = time;
      placement = changed;
      improved = true;
      return false;
    });
  }
  // The pool may be full of what the searches saw: an improvement is always let in.
  if (!less_by_tolerance(flow_s, best_score().flow_s))
    return used;
  placements_.push_back(placement);
  scores_.push_back(score(placement, flow_s));
  best_ = scores_.size() - 1;
  return used;
}

void for_each_exchange(const LoadProblem &problem, const Assignment &placement,
                       const std::function<bool(const Assignment &)> &visit) {
  const auto ranks = static_cast<std::uint32_t>(placement.size());
  std::vector<bool> empty(problem.network.devices, true);
  for (const std::uint32_t device : placement)
    empty[device] = false;
  const auto fixed = [&](std::uint32_t rank) { return problem.pinned[rank] != Qap::no_pin; };
  Assignment changed = placement;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    if (fixed(r))
      continue;
    for (std::uint32_t s = r + 1; s < ranks; ++s) {
      if (fixed(s) || !problem.may_use(r, placement[s]) || !problem.may_use(s, placement[r]))
        continue;
      std::swap(changed[r], changed[s]);
      const bool go_on = visit(changed);
      std::swap(changed[r], changed[s]);
      if (!go_on)
        return;
    }
    for (std::uint32_t d = 0; d < empty.size(); ++d) {
      if (!empty[d] || !problem.may_use(r, d))
        continue;
      changed[r] = d;
      const bool go_on = visit(changed);
      changed[r] = placement[r];
      if (!go_on)
        return;
    }
  }
}

} // namespace toposeat
