// Best values of sets of ranks below the nodes of a tree, each found out when it is asked for.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "rank_sets.hpp"
#include "rank_shares.hpp"
#include "tree_stages.hpp"

namespace toposeat {

/// How values of separate parts of the tree add up.
struct Sum {
  static double join(double a, double b) { return a + b; }
  static double share(double value, int size) { return value / size; }
  /// What a part must stay below for the whole to stay below `limit`, beside what is `known`.
  static double room(double limit, double known) { return limit - known; }
  static bool settles(double /*value*/, double /*other*/) { return false; }
  static constexpr bool adds = true;
};
struct Max {
  static double join(double a, double b) { return std::max(a, b); }
  static double share(double value, int /*size*/) { return value; }
  static double room(double limit, double /*known*/) { return limit; }
  /// Joined with `other`, no value is less than this one.
  static bool settles(double value, double other) { return value <= other; }
  static constexpr bool adds = false;
};

/// Rounding may lift a bound above the value it bounds, but not by this much.
inline double above(double value) {
  return value < unlimited ? value * (1 + 1e-12) + std::numeric_limits<double>::min() : unlimited;
}

/// Whether every placement of a set at a stage is known to have a term above the limit.
using Hopeless = std::function<bool(int stage, RankSet set)>;

template <class Join> class TreeValues {
public:
  /// Placements with a term above `limit` do not count; `hopeless`, if given, knows sets that have
  /// none others.
  TreeValues(const CutTree &tree, const Qap &traffic, double limit, Hopeless hopeless)
      : limit_(limit), hopeless_(std::move(hopeless)), ranks_(static_cast<int>(tree.devices)),
        border_(traffic.flow), silent_(traffic), numbers_(set_numbers()), stages_(tree, traffic),
        most_steps_(stages_.regular() ? std::numeric_limits<std::size_t>::max() : worthwhile_steps),
        shares_(stages_.size()), bounds_(stages_.size()) {
    for (int number = 0; number < static_cast<int>(stages_.size()); ++number) {
      Stage &stage = stages_[number];
      if (stage.leaf >= 0)
        stage.leaves = leaf_values(stages_[stage.leaf].terms);
    }
  }

  [[nodiscard]] const TreeStages &stages() const { return stages_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] Crossing crossing(RankSet set) const { return border_.of(set); }
  [[nodiscard]] const SilentRanks &silent() const { return silent_; }

  /// Whether every placement of the set at the stage is known to have a term above `limit`.
  [[nodiscard]] bool exceeds(int number, RankSet set, double limit) const {
    return std::abs(stages_[number].table[numbers_[silent_.lowest(set)]]) > limit;
  }

  /// Of a whole placement; infinite beyond the limit.
  [[nodiscard]] double of_placement(const CutTree &tree, const Assignment &placement) const {
    double value = 0;
    for (const CutTree::Node &node : tree.nodes) {
      RankSet set = 0;
      for (std::size_t r = 0; r < placement.size(); ++r) {
        if ((node.devices >> placement[r] & 1U) != 0)
          set |= RankSet{1} << r;
      }
      value = Join::join(value, value_of_terms(node.terms, border_.of(set)));
    }
    return value;
  }

  /// Terms of the node itself; infinite beyond the limit or where pins do not fit.
  double own_terms(const Stage &stage, const Crossing &crossing, RankSet set) const {
    if (stage.has_pins && (set & stages_.all_pinned()) != stage.pinned)
      return unlimited;
    return value_of_terms(stage.terms, crossing);
  }

  /// The best value of the set at the stage, if it is known already or below `enough`; else
  /// infinite.
  double value(int number, RankSet set, double enough) {
    if (silent_.any())
      set = silent_.lowest(set);
    const double known = stages_[number].table[numbers_[set]];
    if (!std::signbit(known))
      return known;
    if (-known >= enough)
      return unlimited;
    const Stage &stage = stages_[number];
    const Crossing crossing = stage.terms.empty() ? Crossing{} : border_.of(set);
    return value(number, set, enough, own_terms(stage, crossing, set));
  }

  /// The same with the node's own terms at hand.
  double value(int number, RankSet set, double enough, double own) {
    if (silent_.any())
      set = silent_.lowest(set);
    // Stages are never added once values are asked for: the reference stays good.
    double &known = stages_[number].table[numbers_[set]];
    if (!std::signbit(known))
      return known;
    if (-known >= enough || !(enough > 0))
      return unlimited;
    // Who was not found below some limit and is asked for again is searched once and for all.
    if (-known > 0)
      enough = unlimited;
    if (hopeless_ && hopeless_(number, set))
      return known = unlimited;
    const std::optional<double> found = compute(number, set, enough, own, known);
    if (found)
      known = *found;
    return found.value_or(unlimited);
  }

  /// The right half of the best split of a set that `value` found a value for.
  RankSet best_right(int number, RankSet set) {
    const Stage &stage = stages_[number];
    const double known = value(number, set, unlimited);
    const double own = own_terms(stage, border_.of(set), set);
    const double below = Join::room(known, own) + 1e-12 * known;
    return best_split(number, set, above(below)).second;
  }

  /// The best split of the set, or one that is as good once joined with `own`; only those count
  /// whose value is below `enough`. The set returned is empty if there is none.
  std::pair<double, RankSet> best_split(int number, RankSet set, double enough, double own = -1) {
    const Stage &stage = stages_[number];
    const SetBound<Join> &left_bound = bound_below(stage.left);
    double best = enough;
    RankSet best_right = 0;
    const SubsetSpread spread(set);
    const auto &ways = patterns(stage);
    steps_ += ways.size();
    for (const std::uint16_t pattern : ways) {
      const RankSet right = spread(pattern);
      if (silent_.any() && !silent_.lowest_of(right, set))
        continue;
      const RankSet left = set ^ right;
      // The right part is the smaller one: cheap to know, and often enough to rule the split out.
      const double right_value = value(stage.right, right, best);
      if (!(Join::join(left_bound(left), right_value) < above(best)))
        continue;
      const double room = above(Join::room(best, right_value));
      const double whole = Join::join(value(stage.left, left, room), right_value);
      if (whole < best) {
        best = whole;
        best_right = right;
        if (Join::settles(best, own))
          break;
      }
    }
    return {best, best_right};
  }

  /// Fills a small table the first time it is asked for; large ones stay lazy, since most of their
  /// values may never be needed.
  bool complete(int number) {
    Stage &stage = stages_[number];
    if (stage.complete)
      return true;
    // Of most of the ranks, sets are few too, but what they are made of is not.
    const bool small = stage.table.size() <= small_table && 2 * stage.size <= ranks_;
    if (small || steps_ > most_steps_) {
      for_each_set(ranks_, stage.size, [&](RankSet set) {
        const double known = value(number, set, unlimited);
        stage.table[numbers_[set]] = known; // it may be that of other silent ranks
      });
      stage.complete = true;
    }
    return stage.complete;
  }

  /// Lower bound of a stage's values without its own terms: from the least shares of its ranks.
  const SetBound<Join> &bound_below(int number) {
    std::optional<SetBound<Join>> &bound = bounds_[index(number)];
    if (!bound) {
      const Stage &stage = stages_[number];
      bound.emplace(stage.leaf >= 0 ? stage.leaves : least_shares(stage.parts));
    }
    return *bound;
  }

  const std::vector<std::uint16_t> &patterns(const Stage &stage) const {
    return subset_patterns(stage.size, stages_[stage.right].size, stage.symmetric);
  }

private:
  static constexpr std::size_t small_table = 2500;
  static constexpr std::size_t worthwhile_steps = 60000;
  static constexpr int most_raises = 8; // of shares: what one more gains is little then
  static constexpr double least_raise = 1e-3;

  static std::size_t index(int stage) { return static_cast<std::size_t>(stage); }

  double value_of_terms(const std::vector<CutTerm> &terms, const Crossing &crossing) const {
    double value = 0;
    for (const CutTerm &term : terms) {
      const double each = charge(term, crossing);
      if (each > limit_)
        return unlimited;
      value = Join::join(value, each);
    }
    return value;
  }

  /// Nothing if the value is not below `enough`, though it may be found all the same. That a search
  /// found nothing is put down in `known`.
  std::optional<double> compute(int number, RankSet set, double enough, double own, double &known) {
    const Stage &stage = stages_[number];
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
    if (!(own < enough))
      return std::nullopt;
    if (complete(stage.left) && complete(stage.right))
      return Join::join(own, best_known_value(stage, set));
    if (!(Join::join(own, bound_below(number)(set)) < above(enough)))
      return std::nullopt;
    const auto [below, right] = best_split(number, set, above(Join::room(enough, own)), own);
    if (right != 0)
      return Join::join(own, below);
    if (!(enough < unlimited))
      return unlimited;
    known = -enough;
    return std::nullopt;
  }

  /// Every rank on a leaf with these terms; pins are checked by the flat block for all its leaves.
  std::vector<double> leaf_values(const std::vector<CutTerm> &terms) const {
    std::vector<double> values;
    values.reserve(index(ranks_));
    for (int r = 0; r < ranks_; ++r)
      values.push_back(value_of_terms(terms, border_.of(RankSet{1} << r)));
    return values;
  }

  /// The innermost loop: all values of both parts are in their tables. Which split it was is found
  /// out again by `best_split` for the few sets of the answer.
  double best_known_value(const Stage &stage, RankSet set) {
    const double *left_table = stages_[stage.left].table.data();
    const double *right_table = stages_[stage.right].table.data();
    if (stage.size == SplitNumbers::size) {
      const SplitNumbers split(set, stages_[stage.right].size);
      double best[2] = {unlimited, unlimited};
      split.for_each(stage.symmetric, [&](std::size_t left, std::size_t right, std::size_t turn) {
        best[turn] = std::min(best[turn], Join::join(left_table[left], right_table[right]));
      });
      return std::min(best[0], best[1]);
    }
    const std::uint16_t *numbers = numbers_.data();
    if (stages_[stage.right].size == 1 && !stage.symmetric) {
      double best[2] = {unlimited, unlimited};
      std::size_t turn = 0;
      for (RankSet rest = set; rest != 0; rest &= rest - 1, turn ^= 1U) {
        const double right = right_table[std::countr_zero(rest)];
        const double left = left_table[numbers[set ^ (rest & (~rest + 1))]];
        best[turn] = std::min(best[turn], Join::join(left, right));
      }
      return std::min(best[0], best[1]);
    }
    const SubsetSpread spread(set);
    double best = unlimited;
    for (const std::uint16_t pattern : patterns(stage)) {
      const RankSet right = spread(pattern);
      best =
          std::min(best, Join::join(left_table[numbers[set ^ right]], right_table[numbers[right]]));
    }
    return best;
  }

  // --- shares --------------------------------------------------------------------------------

  /// For each rank the least that any node of these stages can charge for it.
  std::vector<double> least_shares(const std::vector<int> &parts) {
    std::vector<double> least(index(ranks_), parts.empty() ? 0.0 : unlimited);
    std::vector<int> distinct = parts;
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    for (const int part : distinct) {
      const std::vector<double> &shares = shares_of(part);
      for (std::size_t r = 0; r < least.size(); ++r)
        least[r] = std::min(least[r], shares[r]);
    }
    return least;
  }

  /// Shares that no set's value is less than the join of. Sums leave something of most sets: what
  /// is left of the least sets of each rank is shared out again, unless the sets that are
  /// not hopeless are few anyway.
  const std::vector<double> &shares_of(int part) {
    std::vector<double> &shares = shares_[index(part)];
    if (!shares.empty())
      return shares;
    if (!complete(part))
      return shares = least_shares(stages_[part].parts);
    const Stage &stage = stages_[part];
    shares.assign(index(ranks_), 0.0);
    double total = 0;
    for (int i = 0; i < (Join::adds && !hopeless_ ? most_raises : 1); ++i) {
      std::vector<double> raises = least_left(stage.table.data(), stage.size, shares);
      double raised = 0;
      for (std::size_t r = 0; r < shares.size(); ++r) {
        raises[r] = Join::share(raises[r], stage.size);
        raised += raises[r];
        shares[r] += raises[r];
      }
      total += raised;
      if (!(raised > least_raise * total) || !(total < unlimited))
        break;
    }
    return shares;
  }

  double limit_;
  Hopeless hopeless_;
  int ranks_;
  BorderTraffic border_;
  SilentRanks silent_;
  const std::vector<std::uint16_t> &numbers_;
  TreeStages stages_;
  std::size_t steps_ = 0;  // splits looked at one by one
  std::size_t most_steps_; // if these do not suffice, filling all tables is quicker
  std::vector<std::vector<double>> shares_;           // by stage
  std::vector<std::optional<SetBound<Join>>> bounds_; // by stage
};

} // namespace toposeat
