// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/subset_dp.hpp"

#include <utility>

#include "fitting_sets.hpp"
#include "root_split.hpp"
#include "tree_placer.hpp"
#include "tree_values.hpp"

namespace toposeat {
namespace {

template <class Join> class TreeSolver {
public:
  TreeSolver(const CutTree &tree, const Qap &traffic, double limit, Hopeless hopeless = {})
      : tree_(tree), traffic_(traffic), values_(tree, traffic, limit, std::move(hopeless)),
        stages_(values_.stages()) {}

  [[nodiscard]] const TreeValues<Join> &values() const { return values_; }

  std::optional<TreeAnswer> solve(double upper) {
    const int root = stages_.of_node(0);
    const auto all = static_cast<RankSet>((std::uint64_t{1} << tree_.devices) - 1);
    double value = unlimited;
    RankSet root_right = 0;
    if (stages_[root].left < 0) {
      value = values_.value(root, all, upper);
      if (!(value < upper))
        return std::nullopt;
    } else {
      const auto best = RootSplit<Join>(values_).best(upper);
      if (!best)
        return std::nullopt;
      value = best->value;
      root_right = best->right;
    }
    const auto right_part = [&](int number, RankSet set) {
      return number == root ? root_right : values_.best_right(number, set);
    };
    return TreeAnswer{TreePlacer(tree_, traffic_, stages_, right_part).place(), value};
  }

private:
  const CutTree &tree_;
  const Qap &traffic_;
  TreeValues<Join> values_;
  const TreeStages &stages_;
};

} // namespace

std::optional<TreeAnswer> min_sum_on_tree(const CutTree &tree, const Qap &traffic, double upper,
                                          double limit) {
  return TreeSolver<Sum>(tree, traffic, limit).solve(upper);
}

namespace {

constexpr int many_silent = 6; // of 16 ranks: the sets that differ are few then

/// Whether values are found sooner than which sets fit.
bool by_values(const CutTree &tree, const Qap &traffic) {
  return SilentRanks(traffic).count() >= many_silent || TreeStages(tree, traffic, false).regular();
}

/// The least maximum by values, and then the least sum within it.
std::optional<TreeAnswer> lexicographic_by_values(const CutTree &tree, const Qap &traffic,
                                                  double upper, double sum_below) {
  TreeSolver<Max> maxima(tree, traffic, upper);
  std::optional<TreeAnswer> least = maxima.solve(upper);
  if (!least || !(least->value < sum_below * (1 - 1e-9))) // also if that is infinite
    return least;
  const double limit = least->value * (1 + 1e-12);
  const auto hopeless = [&](int stage, RankSet set) {
    return maxima.values().exceeds(stage, set, limit);
  };
  TreeSolver<Sum> sums(tree, traffic, limit, hopeless);
  if (auto best = sums.solve(sums.values().of_placement(tree, least->placement)))
    least->placement = std::move(best->placement);
  return least;
}

/// The same with the least maximum found by sets of ranks that fit.
std::optional<TreeAnswer> lexicographic_by_sets(const CutTree &tree, const Qap &traffic,
                                                double upper, double sum_below) {
  FittingSets sets(tree, traffic);
  std::optional<TreeAnswer> least = sets.least(upper);
  if (!least || !(least->value < sum_below * (1 - 1e-9))) // also if that is infinite
    return least;
  const double limit = least->value * (1 + 1e-12);
  sets.fill(limit);
  const auto hopeless = [&](int stage, RankSet set) { return !sets.fits(stage, set); };
  TreeSolver<Sum> sums(tree, traffic, limit, hopeless);
  if (auto best = sums.solve(sums.values().of_placement(tree, least->placement)))
    least->placement = std::move(best->placement);
  return least;
}

} // namespace

std::optional<TreeAnswer> min_max_on_tree(const CutTree &tree, const Qap &traffic, double upper) {
  if (!by_values(tree, traffic))
    return FittingSets(tree, traffic).least(upper);
  // A larger term makes a placement useless: it need not be looked into.
  return TreeSolver<Max>(tree, traffic, upper).solve(upper);
}

std::optional<TreeAnswer> min_max_then_sum_on_tree(const CutTree &tree, const Qap &traffic,
                                                   double upper, double sum_below) {
  return by_values(tree, traffic) ? lexicographic_by_values(tree, traffic, upper, sum_below)
                                  : lexicographic_by_sets(tree, traffic, upper, sum_below);
}

} // namespace toposeat
