// New placements from old ones, for the population of cost_search.hpp: kicks along augmenting
// paths, and the crossing of two that keeps what they share (the path crossover of Ahuja, Orlin,
// Tiwari, A greedy genetic algorithm for the quadratic assignment problem, Computers and Operations
// Research 27, 2000, ended half way).
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "search/swap_problem.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

/// Random exchanges as far as they are allowed, a uniform permutation where everything is; kicks
/// follow where something is not.
void shuffle(const SwapProblem &problem, Assignment &placement, Rng &rng);

/// `length` times, a random rank that is not idle goes to a random device that it may use. The
/// rank displaced takes its place, or if that is not allowed, others make room in a chain.
void kick(const SwapProblem &problem, Assignment &placement, std::size_t length, Rng &rng);

/// Ranks with different devices in the two placements; idle ones do not count.
std::size_t distance_between(const SwapProblem &problem, const Assignment &a, const Assignment &b);

/// Keeps what the parents share; half of the other ranks go from where `a` has them to where `b`
/// does, in random order, each exchanging devices with the rank that it displaces.
Assignment crossed(const SwapProblem &problem, const Assignment &a, const Assignment &b, Rng &rng);

struct Member {
  Assignment placement;
  double cost = 0;
};

/// A few good and different placements.
class Population {
public:
  explicit Population(std::size_t size) : size_(size) {}

  [[nodiscard]] bool full() const { return members_.size() >= size_; }
  [[nodiscard]] const std::vector<Member> &members() const { return members_; }

  void add(Member member) { members_.push_back(std::move(member)); }

  /// Replaces the worst unless the new one is no better, or has the cost of another member: then it
  /// is most likely a symmetric copy.
  bool compete(Member member);

  /// Best first.
  void sort();

  /// Two different members at random; there must be two.
  [[nodiscard]] std::pair<std::size_t, std::size_t> parents(Rng &rng) const;

private:
  std::size_t size_;
  std::vector<Member> members_;
};

} // namespace toposeat
