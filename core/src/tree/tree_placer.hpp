// From sets of ranks at the nodes of a tree to devices.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "toposeat/problem/qap.hpp"
#include "toposeat/tree/cut_tree.hpp"
#include "tree/rank_sets.hpp"
#include "tree/tree_stages.hpp"

namespace toposeat {

/// `RightPart` says which ranks of a set the right part of a joined stage gets: (stage, set) ->
/// set.
template <class RightPart> class TreePlacer {
public:
  TreePlacer(const CutTree &tree, const Qap &traffic, const TreeStages &stages,
             RightPart right_part)
      : tree_(tree), traffic_(traffic), stages_(stages), right_part_(right_part) {}

  /// All ranks below the root.
  Assignment place() {
    placement_.assign(tree_.devices, 0);
    place_node(0, static_cast<RankSet>((std::uint64_t{1} << tree_.devices) - 1));
    return placement_;
  }

private:
  void place_node(std::uint32_t number, RankSet set) {
    const CutTree::Node &node = tree_.nodes[number];
    const int stage = stages_.of_node(number);
    if (stages_[stage].left >= 0) {
      place_split(stage, set, node.children);
    } else {
      fill_flat(node.devices, set);
    }
  }

  void place_split(int number, RankSet set, std::vector<std::uint32_t> nodes) {
    const Stage &stage = stages_[number];
    const RankSet right = right_part_(number, set);
    place_nodes(stage.right, right, taken(stage.right, nodes));
    place_nodes(stage.left, set ^ right, std::move(nodes));
  }

  /// The nodes that a stage covers, out of `nodes`: of equal ones the first.
  std::vector<std::uint32_t> taken(int number, std::vector<std::uint32_t> &nodes) const {
    std::vector<std::uint32_t> mine;
    for (const int member : stages_[number].members) {
      const auto first = std::find_if(nodes.begin(), nodes.end(), [&](std::uint32_t node) {
        return stages_.of_node(node) == member;
      });
      mine.push_back(*first);
      nodes.erase(first);
    }
    return mine;
  }

  void place_nodes(int number, RankSet set, std::vector<std::uint32_t> nodes) {
    if (nodes.size() == 1) {
      place_node(nodes.front(), set);
    } else {
      place_split(number, set, std::move(nodes));
    }
  }

  /// Pinned ranks first, the others in order on what is left.
  void fill_flat(std::uint64_t devices, RankSet set) {
    std::vector<std::uint32_t> others;
    for (RankSet rest = set; rest != 0; rest &= rest - 1) {
      const auto rank = static_cast<std::uint32_t>(std::countr_zero(rest));
      if (traffic_.free_rank(rank)) {
        others.push_back(rank);
      } else {
        placement_[rank] = traffic_.pinned[rank];
        devices &= ~(std::uint64_t{1} << placement_[rank]);
      }
    }
    for (const std::uint32_t rank : others) {
      placement_[rank] = static_cast<std::uint32_t>(std::countr_zero(devices));
      devices &= devices - 1;
    }
  }

  const CutTree &tree_;
  const Qap &traffic_;
  const TreeStages &stages_;
  RightPart right_part_;
  Assignment placement_;
};

} // namespace toposeat
