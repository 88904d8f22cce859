// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/subset_dp.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <span>
#include <utility>

#include "rank_sets.hpp"
#include "tree_stages.hpp"

namespace toposeat {
namespace {

constexpr std::size_t small_table = 2500;
constexpr int most_raises = 8; // of shares: what one more gains is little then
constexpr double least_raise = 1e-3;

/// How values of separate parts of the tree add up.
struct Sum {
  static double join(double a, double b) { return a + b; }
  static double share(double value, int size) { return value / size; }
  static bool settles(double /*value*/, double /*other*/) { return false; }
  static constexpr bool adds = true;
};
struct Max {
  static double join(double a, double b) { return std::max(a, b); }
  static double share(double value, int /*size*/) { return value; }
  /// Joined with `other`, no value is less than this one.
  static bool settles(double value, double other) { return value <= other; }
  static constexpr bool adds = false;
};

template <class Join> class TreeSolver {
public:
  /// `maxima` knows which sets have no placement within the limit at a stage, if given.
  TreeSolver(const CutTree &tree, const Qap &traffic, double limit,
             const TreeSolver<Max> *maxima = nullptr)
      : tree_(tree), traffic_(traffic), limit_(limit), maxima_(maxima),
        ranks_(static_cast<int>(tree.devices)), border_(traffic.flow), numbers_(set_numbers()),
        stages_(tree, traffic) {
    for (int number = 0; number < static_cast<int>(stages_.size()); ++number) {
      Stage &stage = stages_[number];
      if (stage.leaf >= 0)
        stage.leaves = leaf_values(stages_[stage.leaf].terms);
    }
  }

  std::optional<TreeAnswer> solve(double upper) {
    const int root = stages_.of_node(0);
    const RankSet all = static_cast<RankSet>((std::uint64_t{1} << ranks_) - 1);
    RankSet right = 0;
    double value = unlimited;
    if (stages_[root].left < 0) {
      value = value_of(root, all);
      if (!(value < upper))
        return std::nullopt;
    } else if (!best_root_split(stages_[root], all, upper, value, right)) {
      return std::nullopt;
    }
    TreeAnswer answer{Assignment(tree_.devices), value};
    root_right_ = right;
    assign_node(0, all, answer.placement);
    return answer;
  }

  /// Whether every placement of the set at the stage is known to have a term above `limit`.
  [[nodiscard]] bool exceeds(int number, RankSet set, double limit) const {
    const double known = stages_[number].table[numbers_[set]];
    return known != unknown_value && known > limit;
  }

private:
  static std::size_t index(int stage) { return static_cast<std::size_t>(stage); }

  // --- values --------------------------------------------------------------------------------

  /// Terms of the node itself; infinite beyond the limit or where pins do not fit.
  double own_terms(const Stage &stage, RankSet set) const {
    return own_terms(stage, set, stage.terms.empty() ? Crossing{} : border_.of(set));
  }

  double own_terms(const Stage &stage, RankSet set, const Crossing &crossing) const {
    if (stage.has_pins && (set & stages_.all_pinned()) != stage.pinned)
      return unlimited;
    return value_of_terms(stage.terms, crossing);
  }

  double value_of_terms(const std::vector<CutTerm> &terms, const Crossing &crossing) const {
    double value = 0;
    for (const CutTerm &term : terms) {
      double each = std::max({term.out * crossing.out, term.in * crossing.in,
                              term.both * (crossing.out + crossing.in)});
      if (each > 0)
        each += term.fixed;
      if (each > limit_)
        return unlimited;
      value = Join::join(value, each);
    }
    return value;
  }

  double value_of(int number, RankSet set) {
    const double known = stages_[number].table[numbers_[set]];
    if (known != unknown_value)
      return known;
    return value_of(number, set, own_terms(stages_[number], set));
  }

  /// The same with the node's own terms at hand.
  double value_of(int number, RankSet set, double own) {
    // Stages are never added once values are asked for: the reference stays good.
    double &known = stages_[number].table[numbers_[set]];
    if (known == unknown_value) {
      const bool hopeless = maxima_ != nullptr && maxima_->exceeds(number, set, limit_);
      known = hopeless ? unlimited : compute(stages_[number], set, own);
    }
    return known;
  }

  double compute(const Stage &stage, RankSet set, double own) {
    if (!(own < unlimited))
      return unlimited;
    if (stage.leaf >= 0) {
      double value = own;
      for (RankSet rest = set; rest != 0; rest &= rest - 1)
        value = Join::join(value, stage.leaves[index(std::countr_zero(rest))]);
      return value;
    }
    if (stage.left < 0)
      return own;
    const bool known = complete(stage.left) && complete(stage.right);
    return Join::join(own,
                      known ? best_known_value(stage, set) : best_split(stage, set, own).first);
  }

  /// Every rank on a leaf with these terms; pins are checked by the flat block for all its leaves.
  std::vector<double> leaf_values(const std::vector<CutTerm> &terms) const {
    std::vector<double> values;
    values.reserve(static_cast<std::size_t>(ranks_));
    for (int r = 0; r < ranks_; ++r)
      values.push_back(value_of_terms(terms, border_.of(RankSet{1} << r)));
    return values;
  }

  /// The best split of the set, or one that is as good once joined with `own`.
  std::pair<double, RankSet> best_split(const Stage &stage, RankSet set, double own = -1) {
    double best = unlimited;
    RankSet best_right = 0;
    const SubsetSpread spread(set);
    for (const std::uint16_t pattern : patterns(stage)) {
      const RankSet right = spread(pattern);
      // The right part is the smaller one: cheap to know, and often enough to rule the split out.
      const double right_value = value_of(stage.right, right);
      if (!(right_value < best))
        continue;
      const double value = Join::join(value_of(stage.left, set ^ right), right_value);
      if (value < best) {
        best = value;
        best_right = right;
        if (Join::settles(best, own))
          break;
      }
    }
    return {best, best_right};
  }

  /// The innermost loop: all values of both parts are in their tables. Which split it was is found
  /// out again by `best_split` for the few sets of the answer.
  double best_known_value(const Stage &stage, RankSet set) {
    const double *left_table = stages_[stage.left].table.data();
    const double *right_table = stages_[stage.right].table.data();
    const std::uint16_t *numbers = numbers_.data();
    const SubsetSpread spread(set);
    double best = unlimited;
    if (stage.size <= 8) {
      for (const std::uint16_t pattern : patterns(stage)) {
        const RankSet right = spread.short_pattern(pattern);
        best = std::min(best,
                        Join::join(left_table[numbers[set ^ right]], right_table[numbers[right]]));
      }
      return best;
    }
    for (const std::uint16_t pattern : patterns(stage)) {
      const RankSet right = spread(pattern);
      best =
          std::min(best, Join::join(left_table[numbers[set ^ right]], right_table[numbers[right]]));
    }
    return best;
  }

  /// Fills a small table the first time it is asked for; large ones stay lazy, since the root may
  /// never need most of them.
  bool complete(int number) {
    Stage &stage = stages_[number];
    if (!stage.complete && stage.table.size() <= small_table) {
      for_each_set(ranks_, stage.size, [&](RankSet set) { value_of(number, set); });
      stage.complete = true;
    }
    return stage.complete;
  }

  const std::vector<std::uint16_t> &patterns(const Stage &stage) {
    return subset_patterns(stage.size, stages_[stage.right].size, stage.symmetric);
  }

  // --- the root: bounds first ----------------------------------------------------------------

  /// For each rank the least that any node of these stages can charge for it.
  std::vector<double> least_shares(const std::vector<int> &parts) {
    std::vector<double> least(index(ranks_), unlimited);
    std::vector<int> distinct = parts;
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    for (const int part : distinct) {
      const std::vector<double> shares = shares_of(part);
      for (std::size_t r = 0; r < least.size(); ++r)
        least[r] = std::min(least[r], shares[r]);
    }
    return least;
  }

  /// Shares that no set's value is less than the join of. Sums leave something of most sets: what
  /// is left of the least sets of each rank is shared out again, unless the sets that `maxima_`
  /// leaves are few anyway.
  std::vector<double> shares_of(int part) {
    if (!complete(part)) {
      const std::vector<int> parts = stages_[part].parts;
      return parts.empty() ? std::vector<double>(index(ranks_), 0.0) : least_shares(parts);
    }
    std::vector<double> shares = raises_of(part, std::vector<double>(index(ranks_), 0.0));
    const bool again = Join::adds && maxima_ == nullptr;
    double total = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (int i = 1; again && i < most_raises && total < unlimited; ++i) {
      const std::vector<double> raises = raises_of(part, shares);
      const double raised = std::accumulate(raises.begin(), raises.end(), 0.0);
      if (!(raised > least_raise * total))
        break;
      for (std::size_t r = 0; r < shares.size(); ++r)
        shares[r] += raises[r];
      total += raised;
    }
    return shares;
  }

  /// For each rank its share of the least that its sets have beyond the shares of their ranks. All
  /// can be raised at once: none takes more than its part of what a set has left.
  std::vector<double> raises_of(int part, const std::vector<double> &shares) {
    const int size = stages_[part].size;
    std::vector<double> raises(index(ranks_), unlimited);
    for_each_set(ranks_, size, [&](RankSet set) {
      double over = value_of(part, set);
      if (!(over < unlimited))
        return;
      for (RankSet rest = set; Join::adds && rest != 0; rest &= rest - 1)
        over -= shares[index(std::countr_zero(rest))];
      const double raise = Join::share(std::max(over, 0.0), size);
      for (RankSet rest = set; rest != 0; rest &= rest - 1) {
        double &least = raises[index(std::countr_zero(rest))];
        least = std::min(least, raise);
      }
    });
    return raises;
  }

  /// Lower bound of a stage's values from its own terms and the least shares of its ranks.
  class Bound {
  public:
    explicit Bound(const std::vector<double> &shares) {
      for (std::size_t byte = 0; byte < 2; ++byte) {
        for (std::size_t bits = 1; bits < 256; ++bits) {
          const std::size_t rank = 8 * byte + static_cast<std::size_t>(std::countr_zero(bits));
          const double share = rank < shares.size() ? shares[rank] : 0;
          joined_[byte][bits] = Join::join(joined_[byte][bits & (bits - 1)], share);
        }
      }
    }
    double operator()(RankSet set) const {
      return Join::join(joined_[0][set & 255U], joined_[1][set >> 8U]);
    }

  private:
    std::array<std::array<double, 256>, 2> joined_{};
  };

  Bound bound_below(int number) {
    const Stage &stage = stages_[number];
    if (stage.parts.empty())
      return Bound(std::vector<double>(index(ranks_), 0.0));
    if (stage.leaf >= 0)
      return Bound(stage.leaves);
    const std::vector<int> parts = stage.parts;
    return Bound(least_shares(parts));
  }

  /// What no split of the root has less than.
  double floor_of(const Bound &left, const Bound &right) const {
    double floor = 0;
    for (int r = 0; r < ranks_; ++r)
      floor = Join::join(floor, std::min(left(RankSet{1} << r), right(RankSet{1} << r)));
    return floor;
  }

  bool best_root_split(const Stage &root, RankSet all, double upper, double &value,
                       RankSet &right_set) {
    const Bound left_bound = bound_below(root.left);
    const Bound right_bound = root.left == root.right ? left_bound : bound_below(root.right);
    const double least = floor_of(left_bound, right_bound);
    double best = upper;
    bool found = false;
    const SubsetSpread spread(all);
    for (const std::uint16_t pattern : patterns(root)) {
      const RankSet right = spread(pattern);
      const RankSet left = all ^ right;
      if (maxima_ != nullptr && (maxima_->exceeds(root.left, left, limit_) ||
                                 maxima_->exceeds(root.right, right, limit_)))
        continue;
      // Rounding may lift a bound above the value it bounds, but not by that much.
      const double hopeless = best < unlimited ? best * (1 + 1e-12) : unlimited;
      double bound = Join::join(left_bound(left), right_bound(right));
      if (!(bound < hopeless))
        continue;
      const Crossing leaving = border_.of(left);
      const double left_own = own_terms(stages_[root.left], left, leaving);
      const double right_own =
          own_terms(stages_[root.right], right, {.out = leaving.in, .in = leaving.out});
      bound = Join::join(bound, Join::join(left_own, right_own));
      if (!(bound < hopeless))
        continue;
      const double left_value = value_of(root.left, left, left_own);
      const double right_least = Join::join(right_bound(right), right_own);
      if (!(Join::join(left_value, right_least) < hopeless))
        continue;
      const double whole = Join::join(left_value, value_of(root.right, right, right_own));
      if (whole < best) {
        best = whole;
        right_set = right;
        found = true;
        if (Join::settles(best, least))
          break;
      }
    }
    value = best;
    return found;
  }

  // --- the placement -------------------------------------------------------------------------

  void assign_node(std::uint32_t number, RankSet set, Assignment &placement) {
    const CutTree::Node &node = tree_.nodes[number];
    const Stage &stage = stages_[stages_.of_node(number)];
    if (stage.left >= 0) {
      const RankSet right = number == 0 ? root_right_ : best_split(stage, set).second;
      const std::vector<std::uint32_t> children = stages_.ordered_children(node);
      assign_split(stage, set, right, children, placement);
    } else {
      fill_flat(node.devices, set, placement);
    }
  }

  /// Of equal nodes the first gets the right part, which holds the lowest rank.
  void assign_split(const Stage &stage, RankSet set, RankSet right,
                    std::span<const std::uint32_t> nodes, Assignment &placement) {
    const std::size_t right_nodes = index(stages_[stage.right].nodes);
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
    const Stage &stage = stages_[number];
    assign_split(stage, set, best_split(stage, set).second, nodes, placement);
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
  double limit_;
  const TreeSolver<Max> *maxima_;
  int ranks_;
  BorderTraffic border_;
  const std::vector<std::uint16_t> &numbers_;
  TreeStages stages_;
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
  if (auto best = TreeSolver<Sum>(tree, traffic, limit, &maxima).solve(unlimited))
    least->placement = std::move(best->placement);
  return least;
}

} // namespace toposeat
