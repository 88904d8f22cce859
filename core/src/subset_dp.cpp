// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/subset_dp.hpp"

#include <bit>
#include <span>
#include <utility>

#include "root_split.hpp"
#include "tree_values.hpp"

namespace toposeat {
namespace {

template <class Join> class TreeSolver {
public:
  TreeSolver(const CutTree &tree, const Qap &traffic, double limit,
             const TreeValues<Max> *maxima = nullptr)
      : tree_(tree), traffic_(traffic), values_(tree, traffic, limit, maxima),
        stages_(values_.stages()) {}

  [[nodiscard]] const TreeValues<Join> &values() const { return values_; }

  std::optional<TreeAnswer> solve(double upper) {
    const int root = stages_.of_node(0);
    const auto all = static_cast<RankSet>((std::uint64_t{1} << tree_.devices) - 1);
    double value = unlimited;
    if (stages_[root].left < 0) {
      value = values_.value(root, all, upper);
      if (!(value < upper))
        return std::nullopt;
    } else {
      const auto best = RootSplit<Join>(values_).best(upper);
      if (!best)
        return std::nullopt;
      value = best->value;
      root_right_ = best->right;
    }
    TreeAnswer answer{Assignment(tree_.devices), value};
    assign_node(0, all, answer.placement);
    return answer;
  }

private:
  void assign_node(std::uint32_t number, RankSet set, Assignment &placement) {
    const CutTree::Node &node = tree_.nodes[number];
    const int stage = stages_.of_node(number);
    if (stages_[stage].left >= 0) {
      const RankSet right = number == 0 ? root_right_ : values_.best_right(stage, set);
      const std::vector<std::uint32_t> children = stages_.ordered_children(node);
      assign_split(stages_[stage], set, right, children, placement);
    } else {
      fill_flat(node.devices, set, placement);
    }
  }

  /// Of equal nodes the first gets the right part, which holds the lowest rank.
  void assign_split(const Stage &stage, RankSet set, RankSet right,
                    std::span<const std::uint32_t> nodes, Assignment &placement) {
    const std::size_t right_nodes = static_cast<std::size_t>(stages_[stage.right].nodes);
    const std::size_t left_nodes = nodes.size() - right_nodes;
    if (stage.symmetric) {
      assign_nodes(stage.right, right, nodes.first(right_nodes), placement);
      assign_nodes(stage.left, set ^ right, nodes.last(left_nodes), placement);
    } else {
      assign_nodes(stage.left, set ^ right, nodes.first(left_nodes), placement);
      assign_nodes(stage.right, right, nodes.last(right_nodes), placement);
    }
  }

  void assign_nodes(int number, RankSet set, std::span<const std::uint32_t> nodes,
                    Assignment &placement) {
    if (nodes.size() == 1) {
      assign_node(nodes[0], set, placement);
      return;
    }
    assign_split(stages_[number], set, values_.best_right(number, set), nodes, placement);
  }

  /// Pinned ranks first, the others in order on what is left.
  void fill_flat(std::uint64_t devices, RankSet set, Assignment &placement) const {
    std::vector<std::uint32_t> others;
    for (RankSet rest = set; rest != 0; rest &= rest - 1) {
      const auto rank = static_cast<std::uint32_t>(std::countr_zero(rest));
      if (traffic_.free_rank(rank)) {
        others.push_back(rank);
      } else {
        placement[rank] = traffic_.pinned[rank];
        devices &= ~(std::uint64_t{1} << placement[rank]);
      }
    }
    for (const std::uint32_t rank : others) {
      placement[rank] = static_cast<std::uint32_t>(std::countr_zero(devices));
      devices &= devices - 1;
    }
  }

  const CutTree &tree_;
  const Qap &traffic_;
  TreeValues<Join> values_;
  const TreeStages &stages_;
  RankSet root_right_ = 0;
};

} // namespace

std::optional<TreeAnswer> min_sum_on_tree(const CutTree &tree, const Qap &traffic, double upper,
                                          double limit) {
  return TreeSolver<Sum>(tree, traffic, limit).solve(upper);
}

std::optional<TreeAnswer> min_max_on_tree(const CutTree &tree, const Qap &traffic, double upper) {
  // A larger term makes a placement useless: it need not be looked into.
  return TreeSolver<Max>(tree, traffic, upper).solve(upper);
}

std::optional<TreeAnswer> min_max_then_sum_on_tree(const CutTree &tree, const Qap &traffic,
                                                   double upper, double sum_below) {
  TreeSolver<Max> maxima(tree, traffic, upper);
  std::optional<TreeAnswer> least = maxima.solve(upper);
  if (!least || !less_by_tolerance(least->value, sum_below))
    return least;
  const double limit = least->value * (1 + 1e-12);
  TreeSolver<Sum> sums(tree, traffic, limit, &maxima.values());
  if (auto best = sums.solve(sums.values().of_placement(tree, least->placement)))
    least->placement = std::move(best->placement);
  return least;
}

} // namespace toposeat
