// SPDX-License-Identifier: MIT OR Apache-2.0
#include "exact/subset_dp.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace toposeat {
namespace {

using RankSet = std::uint32_t;

// Sets are handled as two halves: all tables of one half fit into the first-level cache.
constexpr unsigned half_ranks = 8;
constexpr RankSet half_sets = 1U << half_ranks;
constexpr RankSet low_half = half_sets - 1;

constexpr RankSet lowest_of(RankSet set) { return set & (~set + 1); }
constexpr std::size_t size_of(RankSet set) { return static_cast<std::size_t>(std::popcount(set)); }
constexpr std::size_t lowest_rank(RankSet set) {
  return static_cast<std::size_t>(std::countr_zero(set));
}

enum class TermJoin : std::uint8_t { sum, max }; // how terms make up a value

template <TermJoin join> double joined(double a, double b) {
  return join == TermJoin::sum ? a + b : std::max(a, b);
}

/// The subsets of every set of half the ranks, by size.
class Subsets {
public:
  static const Subsets &all() {
    static const Subsets subsets;
    return subsets;
  }

  [[nodiscard]] std::span<const std::uint8_t> of(RankSet set, std::size_t size) const {
    return std::span(listed_).subspan(begin_[set][size], begin_[set][size + 1] - begin_[set][size]);
  }

private:
  Subsets() {
    for (RankSet set = 0; set < half_sets; ++set) {
      for (std::size_t size = 0; size <= half_ranks; ++size) {
        begin_[set][size] = listed_.size();
        for (RankSet part = 0; part <= set; ++part) {
          if ((part & ~set) == 0 && size_of(part) == size)
            listed_.push_back(static_cast<std::uint8_t>(part));
        }
      }
      begin_[set][half_ranks + 1] = listed_.size();
    }
  }

  std::vector<std::uint8_t> listed_;
  std::array<std::array<std::size_t, half_ranks + 2>, half_sets> begin_{};
};

/// Bytes that leave and enter a set of ranks.
struct Crossing {
  double out = 0;
  double in = 0;
};

/// What every set of ranks exchanges with the other ranks. Only positive numbers are added, so that
/// little traffic beside much is not lost, and none at all is exactly zero.
class Crossings {
public:
  explicit Crossings(const Matrix &flow) : all_((RankSet{1} << flow.n) - 1), of_rank_(flow.n) {
    for (std::size_t r = 0; r < flow.n; ++r) {
      for (std::size_t half = 0; half < 2; ++half) {
        for (RankSet set = 1; set < half_sets; ++set) {
          const std::size_t s = half * half_ranks + lowest_rank(set);
          const Crossing &rest = of_rank_[r][half][set ^ lowest_of(set)];
          const bool known = s < flow.n && s != r;
          of_rank_[r][half][set] = {rest.out + (known ? flow(r, s) : 0),
                                    rest.in + (known ? flow(s, r) : 0)};
        }
      }
    }
  }

  [[nodiscard]] Crossing of(RankSet set) const {
    const RankSet others = all_ ^ set;
    Crossing all;
    for (RankSet rest = set; rest != 0; rest ^= lowest_of(rest)) {
      const auto &rank = of_rank_[lowest_rank(rest)];
      const Crossing &low = rank[0][others & low_half];
      const Crossing &high = rank[1][others >> half_ranks];
      all = {all.out + low.out + high.out, all.in + low.in + high.in};
    }
    return all;
  }

private:
  using OfHalves = std::array<std::array<Crossing, half_sets>, 2>;

  RankSet all_;
  std::vector<OfHalves> of_rank_; // with every set of either half
};

/// Ranks without a pin that send and receive nothing: which of them a set has does not matter, only
/// how many.
RankSet idle_ranks(const Qap &traffic) {
  RankSet all = 0;
  for (std::size_t r = 0; r < traffic.size(); ++r) {
    bool idle = traffic.free_rank(r);
    for (std::size_t s = 0; s < traffic.size() && idle; ++s)
      idle = traffic.flow(r, s) == 0 && traffic.flow(s, r) == 0;
    all |= (idle ? RankSet{1} : RankSet{0}) << r;
  }
  return all;
}

/// Where a set of ranks may be placed as a whole: one device, one node, or several siblings.
struct Stage {
  std::size_t size = 1; // devices
  int left = -1;        // the two stages that it is made of; -1: one device
  int right = -1;
  bool interchangeable = false; // either part may be said to have the lowest rank of a set
  std::vector<CutTerm> terms;   // of the node, if it is one
  RankSet may_sit = 0;          // of one device: by rank
};

/// The nodes of a tree as tables to fill, parts before what they are parts of; equal subtrees share
/// one. Siblings are joined two by two: equal ones one after the other, then the kinds, small ones
/// first. That leaves at most some three million splits (sets and parts of them) on 16 devices.
class Stages {
public:
  Stages(const CutTree &tree, const Qap &traffic)
      : tree_(tree), rank_on_(tree.devices, Qap::no_pin),
        without_pin_((RankSet{1} << tree.devices) - 1) {
    for (std::uint32_t r = 0; r < tree.devices; ++r) {
      if (traffic.free_rank(r))
        continue;
      without_pin_ ^= RankSet{1} << r;
      rank_on_[traffic.pinned[r]] = r;
    }
    of_node_.assign(tree.nodes.size(), -1);
    add_node(0);
  }

  [[nodiscard]] std::size_t size() const { return stages_.size(); }
  const Stage &operator[](int number) const { return stages_[static_cast<std::size_t>(number)]; }
  [[nodiscard]] int of_node(std::uint32_t node) const { return of_node_[node]; }

private:
  using Key = std::tuple<int, int, RankSet, std::vector<CutTerm>>;

  int add_node(std::uint32_t number) {
    const CutTree::Node &node = tree_.nodes[number];
    std::vector<CutTerm> terms = node.terms;
    std::sort(terms.begin(), terms.end());
    return of_node_[number] =
               node.children.empty() ? add_device(node, terms) : add_siblings(node, terms);
  }

  int add_device(const CutTree::Node &node, const std::vector<CutTerm> &terms) {
    Stage stage;
    stage.terms = terms;
    const std::uint32_t rank = rank_on_[lowest_rank(static_cast<RankSet>(node.devices))];
    stage.may_sit = rank == Qap::no_pin ? without_pin_ : RankSet{1} << rank;
    return add(std::move(stage));
  }

  int add_siblings(const CutTree::Node &node, const std::vector<CutTerm> &terms) {
    std::map<std::pair<std::size_t, int>, std::size_t> copies; // by size and stage
    for (const std::uint32_t child : node.children) {
      const int stage = add_node(child);
      ++copies[{(*this)[stage].size, stage}];
    }
    std::vector<int> kinds;
    for (const auto &[kind, count] : copies) {
      int equal = kind.second;
      for (std::size_t i = 2; i <= count; ++i)
        equal = join(equal, kind.second, true, i == node.children.size() ? terms : none_);
      kinds.push_back(equal);
    }
    int all = kinds.front();
    for (std::size_t k = 1; k < kinds.size(); ++k)
      all = join(all, kinds[k], false, k + 1 == kinds.size() ? terms : none_);
    return all;
  }

  int join(int left, int right, bool interchangeable, const std::vector<CutTerm> &terms) {
    const std::size_t size = (*this)[left].size + (*this)[right].size;
    if ((*this)[left].size < (*this)[right].size)
      std::swap(left, right);
    return add({size, left, right, interchangeable, terms, 0});
  }

  int add(Stage stage) {
    const auto next = static_cast<int>(stages_.size());
    const auto [known, is_new] =
        known_.try_emplace({stage.left, stage.right, stage.may_sit, stage.terms}, next);
    if (is_new)
      stages_.push_back(std::move(stage));
    return known->second;
  }

  const CutTree &tree_;
  const std::vector<CutTerm> none_;
  std::vector<std::uint32_t> rank_on_; // by device
  RankSet without_pin_;
  std::vector<int> of_node_;
  std::map<Key, int> known_;
  std::vector<Stage> stages_;
};

/// For every stage the best value of every set of as many ranks.
class Tables {
public:
  Tables(const Stages &stages, const Qap &traffic)
      : stages_(stages), crossings_(traffic.flow), all_((RankSet{1} << traffic.size()) - 1),
        idle_(idle_ranks(traffic)), values_(new double[stages.size() << traffic.size()]) {
    RankSet lowest = 0;
    for (RankSet rest = idle_; rest != 0; rest ^= lowest_of(rest)) {
      lowest_idle_[size_of(lowest)] = lowest;
      lowest |= lowest_of(rest);
    }
    lowest_idle_[size_of(lowest)] = lowest;
  }

  /// Infinite where no placement is left without a term above `limit`.
  template <TermJoin join> void fill(double limit) {
    limit_ = limit;
    for (int number = 0; number < static_cast<int>(stages_.size()); ++number) {
      if (stages_[number].left >= 0)
        fill_joined<join>(number);
      else
        fill_device<join>(number);
    }
  }

  [[nodiscard]] double value(int stage, RankSet set) const { return table(stage)[set]; }

  /// Which ranks of a set the right part has in a best split; of several such splits one whose
  /// larger part is least.
  template <TermJoin join> [[nodiscard]] RankSet best_right(int number, RankSet set) const {
    const Stage &stage = stages_[number];
    const RankSet high = set >> half_ranks;
    const RankSet low = set & low_half;
    double best = unlimited;
    double least = unlimited;
    RankSet chosen = 0;
    for_each_high_part(stage, high, size_of(low), [&](RankSet high_part, std::size_t low_size) {
      for_each_low_part(stage, low, low_size, [&](RankSet low_part) {
        const RankSet part = high_part << half_ranks | low_part;
        const double right = value(stage.right, part);
        const double left = value(stage.left, set ^ part);
        const double each = joined<join>(right, left);
        const double larger = std::max(right, left);
        if (less_by_tolerance(each, best) || (each <= best * (1 + 1e-12) && larger < least)) {
          best = each;
          least = larger;
          chosen = part;
        }
      });
    });
    return chosen;
  }

private:
  [[nodiscard]] double *table(int stage) const {
    return values_.get() + static_cast<std::size_t>(stage) * (all_ + std::size_t{1});
  }

  /// The first set, in the order of tables, that differs in idle ranks alone.
  [[nodiscard]] RankSet representative(RankSet set) const {
    return (set & ~idle_) | lowest_idle_[size_of(set & idle_)];
  }

  /// What the terms charge for a set; infinite if one is above the limit.
  template <TermJoin join>
  [[nodiscard]] double charge(const std::vector<CutTerm> &terms, RankSet set) const {
    double all = 0;
    const Crossing crossing = terms.empty() ? Crossing{} : crossings_.of(set);
    for (const CutTerm &term : terms) {
      double each = std::max({term.out * crossing.out, term.in * crossing.in,
                              term.both * (crossing.out + crossing.in)});
      if (each > 0)
        each += term.fixed;
      all = joined<join>(all, each > limit_ ? unlimited : each);
    }
    return all;
  }

  template <TermJoin join> void fill_device(int number) {
    const Stage &stage = stages_[number];
    for (RankSet rest = all_; rest != 0; rest ^= lowest_of(rest)) {
      const RankSet rank = lowest_of(rest);
      const bool may_sit = (stage.may_sit & rank) != 0;
      table(number)[rank] = may_sit ? charge<join>(stage.terms, rank) : unlimited;
    }
  }

  template <TermJoin join> void fill_joined(int number) {
    const std::size_t size = stages_[number].size;
    const RankSet all_high = all_ >> half_ranks;
    const RankSet all_low = all_ & low_half;
    for (std::size_t in_high = 0; in_high <= std::min(size, size_of(all_high)); ++in_high) {
      if (size - in_high > size_of(all_low))
        continue;
      for (const RankSet high : Subsets::all().of(all_high, in_high))
        fill_sets<join>(number, high, Subsets::all().of(all_low, size - in_high));
    }
  }

  /// The sets with these high ranks. What the terms rule out is not split, and of sets that differ
  /// in idle ranks alone one is.
  template <TermJoin join>
  void fill_sets(int number, RankSet high, std::span<const std::uint8_t> lows) {
    const Stage &stage = stages_[number];
    double *const values = table(number) + (high << half_ranks);
    std::array<double, half_sets> best;
    std::array<std::uint8_t, half_sets> possible;
    std::size_t count = 0;
    for (const std::uint8_t low : lows) {
      const RankSet set = high << half_ranks | low;
      const bool represented = representative(set) != set;
      values[low] = represented ? unlimited : charge<join>(stage.terms, set);
      best[low] = unlimited;
      possible[count] = low;
      count += values[low] < unlimited ? 1U : 0U;
    }
    for_each_high_part(stage, high, size_of(lows.front()), [&](RankSet part, std::size_t low_size) {
      const double *const rights = table(stage.right) + (part << half_ranks);
      const double *const lefts = table(stage.left) + ((high ^ part) << half_ranks);
      for (const RankSet low : std::span(possible).first(count)) {
        double least = best[low];
        for_each_low_part(stage, low, low_size, [&](RankSet low_part) {
          const double each = joined<join>(rights[low_part], lefts[low ^ low_part]);
          least = each < least ? each : least;
        });
        best[low] = least;
      }
    });
    for (const std::uint8_t low : std::span(possible).first(count))
      values[low] = joined<join>(values[low], best[low]);
    for (std::size_t i = 0; i < lows.size() && idle_ != 0; ++i)
      values[lows[i]] = value(number, representative(high << half_ranks | lows[i]));
  }

  /// Calls `visit(part, low size)` for the high ranks that the right part of a set may have, with
  /// so many low ones.
  template <class Visit>
  void for_each_high_part(const Stage &stage, RankSet high, std::size_t lows, Visit visit) const {
    const std::size_t size = stages_[stage.right].size;
    const RankSet fixed = stage.interchangeable && lows == 0 ? lowest_of(high) : 0;
    for (std::size_t in_low = 0; in_low <= std::min(size, lows); ++in_low) {
      const std::size_t in_high = size - in_low;
      if (in_high > size_of(high) || in_high < size_of(fixed))
        continue;
      for (const RankSet rest : Subsets::all().of(high ^ fixed, in_high - size_of(fixed)))
        visit(rest | fixed, in_low);
    }
  }

  template <class Visit>
  static void for_each_low_part(const Stage &stage, RankSet low, std::size_t size, Visit visit) {
    const RankSet fixed = stage.interchangeable ? lowest_of(low) : 0;
    if (size < size_of(fixed))
      return;
    for (const RankSet rest : Subsets::all().of(low ^ fixed, size - size_of(fixed)))
      visit(rest | fixed);
  }

  const Stages &stages_;
  Crossings crossings_;
  RankSet all_;
  RankSet idle_;
  std::array<RankSet, max_tree_devices + 1> lowest_idle_{}; // by how many
  double limit_ = unlimited;
  std::unique_ptr<double[]> values_; // by stage and set; of sets of other sizes never written
};

class TreeSolver {
public:
  TreeSolver(const CutTree &tree, const Qap &traffic)
      : tree_(tree), stages_(tree, traffic), tables_(stages_, traffic),
        all_((RankSet{1} << tree.devices) - 1) {}

  /// The least value, if it is below `upper`, of placements with no term above `limit`.
  template <TermJoin join> std::optional<double> least(double upper, double limit) {
    tables_.fill<join>(limit);
    const double value = tables_.value(stages_.of_node(0), all_);
    return value < upper ? std::optional(value) : std::nullopt;
  }

  /// One of the value found last.
  template <TermJoin join> Assignment placement() {
    placement_.assign(tree_.devices, 0);
    place_node<join>(0, all_);
    return placement_;
  }

private:
  template <TermJoin join> void place_node(std::uint32_t number, RankSet set) {
    const CutTree::Node &node = tree_.nodes[number];
    if (node.children.empty()) {
      placement_[lowest_rank(set)] =
          static_cast<std::uint32_t>(lowest_rank(static_cast<RankSet>(node.devices)));
      return;
    }
    std::vector<std::uint32_t> open = node.children;
    split<join>(stages_.of_node(number), set, open);
  }

  /// Gives the set to those of the open nodes that the stage is made of: of equal ones the first.
  template <TermJoin join> void split(int number, RankSet set, std::vector<std::uint32_t> &open) {
    const Stage &stage = stages_[number];
    const RankSet right = tables_.best_right<join>(number, set);
    place_part<join>(stage.right, right, open);
    place_part<join>(stage.left, set ^ right, open);
  }

  template <TermJoin join>
  void place_part(int number, RankSet set, std::vector<std::uint32_t> &open) {
    const auto node = std::find_if(open.begin(), open.end(), [&](std::uint32_t each) {
      return stages_.of_node(each) == number;
    });
    if (node == open.end()) {
      split<join>(number, set, open);
      return;
    }
    const std::uint32_t child = *node;
    open.erase(node);
    place_node<join>(child, set);
  }

  const CutTree &tree_;
  Stages stages_;
  Tables tables_;
  RankSet all_;
  Assignment placement_;
};

} // namespace

std::optional<TreeAnswer> min_sum_on_tree(const CutTree &tree, const Qap &traffic, double upper,
                                          double limit) {
  TreeSolver solver(tree, traffic);
  const auto least = solver.least<TermJoin::sum>(upper, limit);
  if (!least)
    return std::nullopt;
  return TreeAnswer{solver.placement<TermJoin::sum>(), *least};
}

std::optional<TreeAnswer> min_max_on_tree(const CutTree &tree, const Qap &traffic, double upper) {
  TreeSolver solver(tree, traffic);
  const auto least = solver.least<TermJoin::max>(upper, upper);
  if (!least)
    return std::nullopt;
  return TreeAnswer{solver.placement<TermJoin::max>(), *least};
}

std::optional<TreeAnswer> min_max_then_sum_on_tree(const CutTree &tree, const Qap &traffic,
                                                   double upper) {
  TreeSolver solver(tree, traffic);
  const auto least = solver.least<TermJoin::max>(upper, upper);
  if (!least)
    return std::nullopt;
  solver.least<TermJoin::sum>(unlimited, *least * (1 + 1e-12));
  return TreeAnswer{solver.placement<TermJoin::sum>(), *least};
}

} // namespace toposeat
