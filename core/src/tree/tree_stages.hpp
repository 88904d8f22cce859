// The nodes of a tree as tables to fill: equal subtrees share one, siblings are joined two by two.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "toposeat/problem/qap.hpp"
#include "toposeat/tree/cut_tree.hpp"
#include "tree/join_plan.hpp"
#include "tree/rank_sets.hpp"

namespace toposeat {

/// Best value of placing a set of ranks below one node, or below several sibling nodes together.
struct Stage {
  int size = 0;           // devices below
  int left = -1;          // a split into two stages; -1 at leaves and in flat blocks
  int right = -1;         // not larger than the left one
  int leaf = -1;          // stage of each leaf of a flat block
  bool symmetric = false; // the right part may be said to have any one rank
  std::vector<CutTerm> terms;
  bool has_pins = false;
  RankSet pinned = 0;       // ranks pinned to devices below
  std::vector<int> members; // stages of the nodes covered: of siblings, or only this one
};

/// What a term charges for so much traffic.
inline double charge_of(const CutTerm &term, const Crossing &crossing) {
  const double value = std::max(
      {term.out * crossing.out, term.in * crossing.in, term.both * (crossing.out + crossing.in)});
  return value > 0 ? value + term.fixed : value;
}

/// All stages of a tree for one problem; those below a node come before its own.
class TreeStages {
public:
  TreeStages(const CutTree &tree, const Qap &traffic);

  [[nodiscard]] std::size_t size() const { return stages_.size(); }
  const Stage &operator[](int number) const { return stages_[static_cast<std::size_t>(number)]; }
  [[nodiscard]] int of_node(std::uint32_t node) const { return stage_of_node_[node]; }
  [[nodiscard]] RankSet all_pinned() const { return all_pinned_; }

private:
  /// Size, terms, what is below, and which node it is if that matters.
  using Key = std::tuple<int, std::vector<CutTerm>, std::vector<int>, std::size_t>;

  int stage_of(std::uint32_t node_number);
  int add(Stage stage);
  [[nodiscard]] RankSet pinned_below(const CutTree::Node &node) const;
  [[nodiscard]] bool is_flat(const CutTree::Node &node) const;
  void split(Stage &stage, const std::vector<int> &children);
  void divide(Stage &stage, const JoinPlan &plan, const std::vector<int> &kinds,
              const SiblingCounts &group);
  int group_stage(const JoinPlan &plan, const std::vector<int> &kinds, const SiblingCounts &group);

  const CutTree &tree_;
  const Qap &traffic_;
  std::vector<int> stage_of_node_;
  std::map<Key, int> stage_of_key_;
  std::map<std::vector<int>, int> stage_of_group_; // by members
  std::vector<Stage> stages_;
  RankSet all_pinned_ = 0;
};

} // namespace toposeat
