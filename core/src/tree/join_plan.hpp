// In which order siblings of a tree are joined two by two: the one with the fewest splits of sets.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace toposeat {

/// Siblings that are equal in all that matters.
struct SiblingKind {
  int size;   // devices of each
  int copies; // at least 1
};

/// How many of each kind a group has.
using SiblingCounts = std::vector<int>;

/// A group of siblings divided in two.
struct Division {
  SiblingCounts left;
  SiblingCounts right; // the smaller part
  /// Either part may be said to have any one rank: they are alike, or all siblings are of one kind,
  /// and then the one with that rank may be counted to either.
  bool interchangeable = false;
};

/// Cheapest ways of joining groups of siblings, for sets of `ranks` ranks.
class JoinPlan {
public:
  JoinPlan(int ranks, std::vector<SiblingKind> kinds);

  [[nodiscard]] SiblingCounts whole() const;
  /// How a group of more than one sibling is divided.
  [[nodiscard]] Division divided(const SiblingCounts &group) const;

private:
  struct Group {
    SiblingCounts counts;
    int size = 0;
    double splits = 0; // looked at in all, for its value and those of all it is made of
    std::size_t right = 0;
  };

  [[nodiscard]] std::size_t code(const SiblingCounts &counts) const;
  void add_group(std::size_t code);
  void find_way(std::size_t code);
  [[nodiscard]] double splits_between(std::size_t left, std::size_t right) const;
  [[nodiscard]] SiblingCounts largest_one(const SiblingCounts &group) const;

  int ranks_;
  std::vector<SiblingKind> kinds_;
  std::vector<Group> groups_; // by code; empty where they are too many to look at them all
};

} // namespace toposeat
