// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/tree/subset_dp.hpp"

#include "tree/tree_placer.hpp"
#include "tree/tree_tables.hpp"

namespace toposeat {
namespace {

/// The traffic with its silent ranks last.
class SilentLast {
public:
  explicit SilentLast(const Qap &traffic) {
    const RankSet silent = silent_ranks(traffic);
    std::vector<std::uint32_t> quiet;
    for (std::uint32_t rank = 0; rank < traffic.size(); ++rank)
      ((silent >> rank & 1U) != 0 ? quiet : order_).push_back(rank);
    silent_ = static_cast<int>(quiet.size());
    order_.insert(order_.end(), quiet.begin(), quiet.end());
    const std::size_t n = order_.size();
    qap_.flow = Matrix(n);
    qap_.active = n;
    for (std::size_t r = 0; r < n; ++r) {
      qap_.pinned.push_back(traffic.pinned[order_[r]]);
      for (std::size_t s = 0; s < n; ++s)
        qap_.flow(r, s) = traffic.flow(order_[r], order_[s]);
    }
  }

  [[nodiscard]] const Qap &traffic() const { return qap_; }
  [[nodiscard]] int silent() const { return silent_; }

  /// Of a placement of these ranks, that of the ranks as they were.
  [[nodiscard]] Assignment original(const Assignment &placement) const {
    Assignment of_rank(placement.size());
    for (std::size_t r = 0; r < placement.size(); ++r)
      of_rank[order_[r]] = placement[r];
    return of_rank;
  }

private:
  std::vector<std::uint32_t> order_; // ranks as they were
  int silent_ = 0;
  Qap qap_;
};

class TreeSolver {
public:
  TreeSolver(const CutTree &tree, const Qap &traffic)
      : tree_(tree), ranks_(traffic), stages_(tree, ranks_.traffic()),
        tables_(stages_, ranks_.traffic(), ranks_.silent()) {}

  /// The least value, if it is below `upper`, of placements with no term above `limit`.
  std::optional<double> least(TermJoin join, double upper, double limit) {
    tables_.fill(join, limit);
    const double value = tables_.value(stages_.of_node(0), (RankSet{1} << tree_.devices) - 1);
    return value < upper ? std::optional(value) : std::nullopt;
  }

  /// After the least maximum: the least sum among placements with no term above `limit`.
  void settle_sum(double limit) { tables_.refill(TermJoin::sum, limit); }

  /// One of the value found last.
  [[nodiscard]] Assignment placement() const {
    const auto right_part = [this](int stage, RankSet set) {
      return tables_.best_right(stage, set);
    };
    return ranks_.original(TreePlacer(tree_, ranks_.traffic(), stages_, right_part).place());
  }

private:
  const CutTree &tree_;
  SilentLast ranks_;
  TreeStages stages_;
  TreeTables tables_;
};

} // namespace

std::optional<TreeAnswer> min_sum_on_tree(const CutTree &tree, const Qap &traffic, double upper,
                                          double limit) {
  TreeSolver solver(tree, traffic);
  const std::optional<double> least = solver.least(TermJoin::sum, upper, limit);
  return least ? std::optional(TreeAnswer{solver.placement(), *least}) : std::nullopt;
}

std::optional<TreeAnswer> min_max_on_tree(const CutTree &tree, const Qap &traffic, double upper) {
  TreeSolver solver(tree, traffic);
  const std::optional<double> least = solver.least(TermJoin::max, upper, upper);
  return least ? std::optional(TreeAnswer{solver.placement(), *least}) : std::nullopt;
}

std::optional<TreeAnswer> min_max_then_sum_on_tree(const CutTree &tree, const Qap &traffic,
                                                   double upper, double sum_below) {
  TreeSolver solver(tree, traffic);
  const std::optional<double> least = solver.least(TermJoin::max, upper, upper);
  if (!least)
    return std::nullopt;
  // Also if that is infinite.
  if (*least < sum_below * (1 - 1e-9))
    solver.settle_sum(*least * (1 + 1e-12));
  return TreeAnswer{solver.placement(), *least};
}

} // namespace toposeat
