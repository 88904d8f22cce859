// From sets of ranks at the nodes of a tree to devices.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <bit>
#include <span>
#include <vector>

#include "rank_sets.hpp"
#include "toposeat/cut_tree.hpp"
#include "toposeat/qap.hpp"
#include "tree_stages.hpp"

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
      const std::vector<std::uint32_t> children = stages_.ordered_children(node);
      place_split(stage, set, children);
    } else {
      fill_flat(node.devices, set);
    }
  }

  /// Of equal nodes the first gets the right part.
  void place_split(int number, RankSet set, std::span<const std::uint32_t> nodes) {
    const Stage &stage = stages_[number];
    const RankSet right = right_part_(number, set);
    const auto right_nodes = static_cast<std::size_t>(stages_[stage.right].nodes);
    const std::size_t left_nodes = nodes.size() - right_nodes;
    if (stage.symmetric) {
      place_nodes(stage.right, right, nodes.first(right_nodes));
      place_nodes(stage.left, set ^ right, nodes.last(left_nodes));
    } else {
      place_nodes(stage.left, set ^ right, nodes.first(left_nodes));
      place_nodes(stage.right, right, nodes.last(right_nodes));
    }
  }

  void place_nodes(int number, RankSet set, std::span<const std::uint32_t> nodes) {
    if (nodes.size() == 1) {
      place_node(nodes[0], set);
    } else {
      place_split(number, set, nodes);
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
