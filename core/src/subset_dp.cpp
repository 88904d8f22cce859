// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/subset_dp.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <tuple>

#include "rank_sets.hpp"

namespace toposeat {
namespace {

constexpr double not_yet = -1; // all values are >= 0
constexpr std::size_t small_table = 2500;

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
  std::vector<double> table; // by set number; not_yet where unknown
  bool complete = false;     // every value in the table is known
};

/// How values of separate parts of the tree add up.
struct Sum {
  static double join(double a, double b) { return a + b; }
  static double share(double value, int size) { return value / size; }
};
struct Max {
  static double join(double a, double b) { return std::max(a, b); }
  static double share(double value, int /*size*/) { return value; }
};

template <class Join> class TreeSolver {
public:
  TreeSolver(const CutTree &tree, const Qap &traffic, double limit)
      : tree_(tree), traffic_(traffic), limit_(limit), ranks_(static_cast<int>(tree.devices)),
        border_(traffic.flow), numbers_(set_numbers()), stage_of_node_(tree.nodes.size(), -1) {
    for (std::uint32_t r = 0; r < tree.devices; ++r) {
      if (!traffic.free_rank(r)) {
        all_pinned_ |= RankSet{1} << r;
      }
    }
  }

  std::optional<TreeAnswer> solve(double upper) {
    const int root = stage_of(0);
    const RankSet all = static_cast<RankSet>((std::uint64_t{1} << ranks_) - 1);
    RankSet right = 0;
    double value = unlimited;
    if (stages_[index(root)].left < 0) {
      value = value_of(root, all);
      if (!(value < upper))
        return std::nullopt;
    } else if (!best_root_split(stages_[index(root)], all, upper, value, right)) {
      return std::nullopt;
    }
    TreeAnswer answer{Assignment(tree_.devices), value};
    root_right_ = right;
    assign_node(0, all, answer.placement);
    return answer;
  }

private:
  static std::size_t index(int stage) { return static_cast<std::size_t>(stage); }

  // --- building the stages -------------------------------------------------------------------

  using Key = std::tuple<int, std::vector<CutTerm>, std::vector<int>, std::size_t>;

  /// The stage of a node; nodes that look alike and hold no pinned device share one.
  int stage_of(std::uint32_t node_number) {
    int &known = stage_of_node_[node_number];
    if (known >= 0)
      return known;
    const CutTree::Node &node = tree_.nodes[node_number];
    std::vector<int> below;
    below.reserve(node.children.size());
    for (const std::uint32_t child : node.children)
      below.push_back(stage_of(child));
    std::sort(below.begin(), below.end());
    std::vector<CutTerm> terms = node.terms;
    std::sort(terms.begin(), terms.end());
    const RankSet pinned = pinned_below(node);
    const int size = std::popcount(node.devices);
    const Key key{size, terms, below, pinned != 0 ? node_number + std::size_t{1} : 0};
    const auto found = stage_of_key_.find(key);
    if (found != stage_of_key_.end())
      return known = found->second;

    Stage stage;
    stage.terms = std::move(terms);
    if (is_flat(node)) {
      stage.leaf = below.front();
      stage.leaves = leaf_values(stages_[index(below.front())].terms);
    } else if (!below.empty()) {
      stage = split_stage(below);
      stage.terms = std::get<1>(key);
    }
    stage.size = size;
    stage.nodes = 1;
    stage.has_pins = all_pinned_ != 0;
    stage.pinned = pinned;
    stage.parts = std::move(below);
    known = add(std::move(stage));
    stage_of_key_[key] = known;
    return known;
  }

  int add(Stage stage) {
    stage.table.assign(set_count(ranks_, stage.size), not_yet);
    stages_.push_back(std::move(stage));
    return static_cast<int>(stages_.size()) - 1;
  }

  RankSet pinned_below(const CutTree::Node &node) const {
    RankSet pinned = 0;
    for (std::uint32_t r = 0; r < tree_.devices; ++r) {
      if (!traffic_.free_rank(r) && (node.devices >> traffic_.pinned[r] & 1U) != 0) {
        pinned |= RankSet{1} << r;
      }
    }
    return pinned;
  }

  /// All children are leaves with the same terms: any order of the ranks below has one value.
  bool is_flat(const CutTree::Node &node) const {
    if (node.children.empty())
      return false;
    std::vector<CutTerm> first;
    for (const std::uint32_t child : node.children) {
      if (!tree_.nodes[child].children.empty())
        return false;
      std::vector<CutTerm> terms = tree_.nodes[child].terms;
      std::sort(terms.begin(), terms.end());
      if (child == node.children.front())
        first = terms;
      if (terms != first)
        return false;
    }
    return true;
  }

  Stage joined(int left, int right, bool symmetric) const {
    const Stage &a = stages_[index(left)];
    const Stage &b = stages_[index(right)];
    Stage stage;
    stage.size = a.size + b.size;
    stage.nodes = a.nodes + b.nodes;
    stage.left = left;
    stage.right = right;
    stage.symmetric = symmetric;
    for (const int part : {left, right}) {
      const Stage &each = stages_[index(part)];
      if (each.nodes == 1) {
        stage.parts.push_back(part);
      } else {
        stage.parts.insert(stage.parts.end(), each.parts.begin(), each.parts.end());
      }
    }
    return stage;
  }

  /// Joins the children (sorted stages) two by two, equal ones first; returns the last join, not
  /// yet added.
  Stage split_stage(const std::vector<int> &children) {
    std::vector<std::pair<int, int>> groups; // stage, copies
    for (const int child : children) {
      if (groups.empty() || groups.back().first != child)
        groups.emplace_back(child, 0);
      ++groups.back().second;
    }
    int so_far = -1;
    Stage last;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const auto [part, copies] = groups[g];
      int run = part;
      for (int copy = 1; copy < copies; ++copy) {
        last = joined(run, part, true);
        if (copy + 1 < copies || groups.size() > 1)
          run = add(last);
      }
      if (so_far >= 0) {
        last = joined(so_far, run, false);
        if (g + 1 < groups.size())
          so_far = add(last);
      } else {
        so_far = run;
      }
    }
    return last;
  }

  // --- values --------------------------------------------------------------------------------

  /// Terms of the node itself; infinite beyond the limit or where pins do not fit.
  double own_terms(const Stage &stage, RankSet set) const {
    if (stage.has_pins && (set & all_pinned_) != stage.pinned)
      return unlimited;
    return value_of_terms(stage.terms, set);
  }

  double value_of_terms(const std::vector<CutTerm> &terms, RankSet set) const {
    if (terms.empty())
      return 0;
    const Crossing crossing = border_.of(set);
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
    // Stages are never added once values are asked for: the reference stays good.
    double &known = stages_[index(number)].table[numbers_[set]];
    if (known == not_yet)
      known = compute(stages_[index(number)], set);
    return known;
  }

  double compute(const Stage &stage, RankSet set) {
    const double own = own_terms(stage, set);
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
    return Join::join(own, known ? best_known_value(stage, set) : best_split(stage, set).first);
  }

  /// Every rank on a leaf with these terms; pins are checked by the flat block for all its leaves.
  std::vector<double> leaf_values(const std::vector<CutTerm> &terms) const {
    std::vector<double> values;
    for (int r = 0; r < ranks_; ++r)
      values.push_back(value_of_terms(terms, RankSet{1} << r));
    return values;
  }

  std::pair<double, RankSet> best_split(const Stage &stage, RankSet set) {
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
      }
    }
    return {best, best_right};
  }

  /// The innermost loop: all values of both parts are in their tables. Which split it was is found
  /// out again by `best_split` for the few sets of the answer.
  double best_known_value(const Stage &stage, RankSet set) {
    const double *left_table = stages_[index(stage.left)].table.data();
    const double *right_table = stages_[index(stage.right)].table.data();
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
    Stage &stage = stages_[index(number)];
    if (!stage.complete && stage.table.size() <= small_table) {
      for_each_set(ranks_, stage.size, [&](RankSet set) { value_of(number, set); });
      stage.complete = true;
    }
    return stage.complete;
  }

  const std::vector<std::uint16_t> &patterns(const Stage &stage) {
    return subset_patterns(stage.size, stages_[index(stage.right)].size, stage.symmetric);
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

  std::vector<double> shares_of(int part) {
    const int size = stages_[index(part)].size;
    if (!complete(part)) {
      const std::vector<int> parts = stages_[index(part)].parts;
      return parts.empty() ? std::vector<double>(index(ranks_), 0.0) : least_shares(parts);
    }
    std::vector<double> shares(index(ranks_), unlimited);
    for_each_set(ranks_, size, [&](RankSet set) {
      const double share = Join::share(value_of(part, set), size);
      for (RankSet rest = set; rest != 0; rest &= rest - 1) {
        double &least = shares[index(std::countr_zero(rest))];
        least = std::min(least, share);
      }
    });
    return shares;
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
    const Stage &stage = stages_[index(number)];
    if (stage.parts.empty())
      return Bound(std::vector<double>(index(ranks_), 0.0));
    if (stage.leaf >= 0)
      return Bound(stage.leaves);
    const std::vector<int> parts = stage.parts;
    return Bound(least_shares(parts));
  }

  bool best_root_split(const Stage &root, RankSet all, double upper, double &value,
                       RankSet &right_set) {
    const Bound left_bound = bound_below(root.left);
    const Bound right_bound = root.left == root.right ? left_bound : bound_below(root.right);
    double best = upper;
    bool found = false;
    const SubsetSpread spread(all);
    for (const std::uint16_t pattern : patterns(root)) {
      const RankSet right = spread(pattern);
      const RankSet left = all ^ right;
      // Rounding may lift a bound above the value it bounds, but not by that much.
      const double hopeless = best < unlimited ? best * (1 + 1e-12) : unlimited;
      double bound = Join::join(left_bound(left), right_bound(right));
      if (!(bound < hopeless))
        continue;
      bound = Join::join(bound, Join::join(own_terms(stages_[index(root.left)], left),
                                           own_terms(stages_[index(root.right)], right)));
      if (!(bound < hopeless))
        continue;
      const double left_value = value_of(root.left, left);
      if (!(Join::join(left_value, right_bound(right)) < hopeless))
        continue;
      const double whole = Join::join(left_value, value_of(root.right, right));
      if (whole < best) {
        best = whole;
        right_set = right;
        found = true;
      }
    }
    value = best;
    return found;
  }

  // --- the placement -------------------------------------------------------------------------

  /// Children in the order in which `split_stage` joined their stages.
  std::vector<std::uint32_t> ordered_children(const CutTree::Node &node) const {
    std::vector<std::uint32_t> children = node.children;
    std::sort(children.begin(), children.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(stage_of_node_[a], a) < std::pair(stage_of_node_[b], b);
    });
    return children;
  }

  void assign_node(std::uint32_t number, RankSet set, Assignment &placement) {
    const CutTree::Node &node = tree_.nodes[number];
    const Stage &stage = stages_[index(stage_of_node_[number])];
    if (stage.left >= 0) {
      const RankSet right = number == 0 ? root_right_ : best_split(stage, set).second;
      const std::vector<std::uint32_t> children = ordered_children(node);
      assign_split(stage, set, right, children, placement);
    } else {
      fill_flat(node.devices, set, placement);
    }
  }

  /// Of equal nodes the first gets the right part, which holds the lowest rank.
  void assign_split(const Stage &stage, RankSet set, RankSet right,
                    std::span<const std::uint32_t> nodes, Assignment &placement) {
    const std::size_t right_nodes = index(stages_[index(stage.right)].nodes);
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
    const Stage &stage = stages_[index(number)];
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
  int ranks_;
  BorderTraffic border_;
  const std::vector<std::uint16_t> &numbers_;
  std::vector<int> stage_of_node_;
  std::map<Key, int> stage_of_key_;
  std::vector<Stage> stages_;
  RankSet all_pinned_ = 0;
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

} // namespace toposeat
