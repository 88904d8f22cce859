// The nodes of a tree as tables to fill: equal subtrees share one, siblings are joined two by two.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "rank_sets.hpp"
#include "toposeat/cut_tree.hpp"
#include "toposeat/qap.hpp"

namespace toposeat {

/// Best value of placing a set of ranks below one node, or below several sibling nodes together.
struct Stage {
  int size = 0;  // devices below
  int nodes = 1; // sibling nodes covered
  int left = -1; // a split into two stages; -1 at leaves and in flat blocks
  int right = -1;
  int leaf = -1;              // stage of each leaf of a flat block
  std::vector<double> leaves; // of a flat block: value of each rank on any of its leaves
  bool symmetric = false;     // left and right are made of equal nodes: right takes the lowest rank
  std::vector<CutTerm> terms;
  bool has_pins = false;
  RankSet pinned = 0;        // ranks pinned to devices below
  std::vector<int> parts;    // stages of the nodes just below
  std::vector<double> table; // by set number; a negative entry: at least its absolute value
  bool complete = false;     // every value in the table is known
};

/// What a term charges for so much traffic.
inline double charge(const CutTerm &term, const Crossing &crossing) {
  const double value = std::max(
      {term.out * crossing.out, term.in * crossing.in, term.both * (crossing.out + crossing.in)});
  return value > 0 ? value + term.fixed : value;
}

inline double largest_of(const std::vector<CutTerm> &terms, const Crossing &crossing) {
  double largest = 0;
  for (const CutTerm &term : terms)
    largest = std::max(largest, charge(term, crossing));
  return largest;
}

inline constexpr double unknown_value = -0.0; // all values are >= 0

/// All stages of a tree for one problem; those below a node come before its own.
class TreeStages {
public:
  /// Without tables where values are kept elsewhere.
  TreeStages(const CutTree &tree, const Qap &traffic, bool tables = true);
  ~TreeStages();
  TreeStages(const TreeStages &) = delete;
  TreeStages &operator=(const TreeStages &) = delete;

  [[nodiscard]] std::size_t size() const { return stages_.size(); }
  Stage &operator[](int number) { return stages_[static_cast<std::size_t>(number)]; }
  const Stage &operator[](int number) const { return stages_[static_cast<std::size_t>(number)]; }
  [[nodiscard]] int of_node(std::uint32_t node) const { return stage_of_node_[node]; }
  /// Children of a node in the order in which their stages were joined.
  [[nodiscard]] std::vector<std::uint32_t> ordered_children(const CutTree::Node &node) const;
  [[nodiscard]] RankSet all_pinned() const { return all_pinned_; }
  /// Whether all that is joined below the root is equal: tables are few then, and half of the
  /// splits mirror the others.
  [[nodiscard]] bool regular() const;

private:
  using Key = std::tuple<int, std::vector<CutTerm>, std::vector<int>, std::size_t>;

  int stage_of(std::uint32_t node_number);
  int add(Stage stage);
  [[nodiscard]] RankSet pinned_below(const CutTree::Node &node) const;
  [[nodiscard]] bool is_flat(const CutTree::Node &node) const;
  [[nodiscard]] Stage joined(int left, int right, bool symmetric) const;
  Stage split_stage(const std::vector<int> &children);

  const CutTree &tree_;
  const Qap &traffic_;
  int ranks_;
  bool tables_;
  std::vector<int> stage_of_node_;
  std::map<Key, int> stage_of_key_;
  std::vector<Stage> stages_;
  RankSet all_pinned_ = 0;
};

} // namespace toposeat
