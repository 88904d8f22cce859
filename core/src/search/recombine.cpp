// SPDX-License-Identifier: MIT OR Apache-2.0
#include "search/recombine.hpp"

#include <algorithm>
#include <utility>

#include "toposeat/problem/qap.hpp"

namespace toposeat {
namespace {

/// Moves one rank at a time; others make room along a chain that ends where the rank was.
class Seating {
public:
  Seating(const SwapProblem &problem, Assignment &placement, Rng &rng)
      : problem_(problem), placement_(placement), rng_(rng), rank_on_(placement.size()) {
    for (std::uint32_t i = 0; i < placement.size(); ++i)
      rank_on_[placement[i]] = i;
  }

  /// Nothing happens if no chain leads back.
  void move(std::uint32_t rank, std::uint32_t device) {
    const std::uint32_t displaced = rank_on_[device];
    if (displaced == rank)
      return;
    left_ = placement_[rank];
    if (!problem_.allowed(displaced, left_)) {
      seen_.assign(problem_.n, 0);
      seen_[device] = 1;
      if (!make_room(displaced))
        return;
    } else {
      seat(displaced, left_);
    }
    seat(rank, device);
  }

private:
  void seat(std::uint32_t rank, std::uint32_t device) {
    placement_[rank] = device;
    rank_on_[device] = rank;
  }

  /// Finds another device for `rank`: an augmenting path of a bipartite matching.
  bool make_room(std::uint32_t rank) {
    const std::uint32_t first = rng_.below(problem_.n);
    for (std::uint32_t step = 0; step < problem_.n; ++step) {
      const auto device = static_cast<std::uint32_t>((first + step) % problem_.n);
      if (seen_[device] != 0 || !problem_.allowed(rank, device))
        continue;
      seen_[device] = 1;
      if (device == left_ || make_room(rank_on_[device])) {
        seat(rank, device);
        return true;
      }
    }
    return false;
  }

  const SwapProblem &problem_;
  Assignment &placement_;
  Rng &rng_;
  std::vector<std::uint32_t> rank_on_;
  std::vector<std::uint8_t> seen_;
  std::uint32_t left_ = 0; // device that the moved rank left
};

} // namespace

void shuffle(const SwapProblem &problem, Assignment &placement, Rng &rng) {
  for (std::size_t i = placement.size(); i > 1; --i) {
    const std::size_t other = rng.below(i);
    if (problem.may_exchange(placement, i - 1, other))
      std::swap(placement[i - 1], placement[other]);
  }
  // Exchanges alone may not lead from one part of what is allowed to another; chains do.
  if (!problem.not_allowed.empty())
    kick(problem, placement, problem.n, rng);
}

void kick(const SwapProblem &problem, Assignment &placement, std::size_t length, Rng &rng) {
  std::vector<std::uint32_t> talking;
  for (std::uint32_t i = 0; i < problem.n; ++i) {
    if (problem.idle[i] == 0)
      talking.push_back(i);
  }
  if (talking.empty())
    return;
  Seating seating(problem, placement, rng);
  for (std::size_t each = 0; each < length; ++each) {
    const std::uint32_t rank = talking[rng.below(talking.size())];
    const std::uint32_t device = rng.below(problem.n);
    if (problem.allowed(rank, device))
      seating.move(rank, device);
  }
}

std::size_t distance_between(const SwapProblem &problem, const Assignment &a, const Assignment &b) {
  std::size_t different = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    different += a[i] != b[i] && problem.idle[i] == 0 ? 1U : 0U;
  return different;
}

Assignment crossed(const SwapProblem &problem, const Assignment &a, const Assignment &b, Rng &rng) {
  Assignment child = a;
  std::vector<std::uint32_t> rank_on(child.size());
  for (std::uint32_t i = 0; i < child.size(); ++i)
    rank_on[child[i]] = i;
  for (const std::uint32_t i : rng.permutation(child.size())) {
    if (problem.idle[i] != 0 || child[i] == b[i] || rng.unit() < 0.5)
      continue;
    const std::uint32_t displaced = rank_on[b[i]];
    if (!problem.may_exchange(child, i, displaced))
      continue;
    std::swap(rank_on[child[i]], rank_on[child[displaced]]);
    std::swap(child[i], child[displaced]);
  }
  return child;
}

bool Population::compete(Member member) {
  const auto same = [&](const Member &other) {
    return !less_by_tolerance(member.cost, other.cost) &&
           !less_by_tolerance(other.cost, member.cost);
  };
  if (std::any_of(members_.begin(), members_.end(), same))
    return false;
  const auto worst =
      std::max_element(members_.begin(), members_.end(),
                       [](const Member &a, const Member &b) { return a.cost < b.cost; });
  if (worst->cost <= member.cost)
    return false;
  *worst = std::move(member);
  return true;
}

void Population::sort() {
  // Insertion keeps the order of equals, which decides what a seed returns; there are few members.
  for (auto next = members_.begin(); next != members_.end(); ++next) {
    const auto place =
        std::upper_bound(members_.begin(), next, *next,
                         [](const Member &a, const Member &b) { return a.cost < b.cost; });
    std::rotate(place, next, next + 1);
  }
}

std::pair<std::size_t, std::size_t> Population::parents(Rng &rng) const {
  const std::size_t first = rng.below(members_.size());
  const std::size_t second = rng.below(members_.size() - 1);
  return {first, second < first ? second : second + 1};
}

} // namespace toposeat
