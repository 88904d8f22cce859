// Trees against tables of every set of ranks that is below a node, by trying every division.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "catch.hpp"
#include "exact/cut_tree.hpp"
#include "exact/subset_dp.hpp"

using namespace toposeat;

namespace {

using Set = std::uint32_t;

double sum(double a, double b) { return a + b; }
double larger(double a, double b) { return std::max(a, b); }

/// Best value of every set of ranks below every node, by trying every division: no bound, no
/// symmetry, nothing of the solver.
class Oracle {
public:
  Oracle(const CutTree &tree, const Qap &traffic) : tree_(tree), traffic_(traffic) {}

  /// Placements with a term above `limit` do not count; infinite if none is left.
  double best(double (*join)(double, double), double limit = unlimited) const {
    return below(0, join, limit).begin()->second;
  }

  /// Of one placement.
  double value(const Assignment &placement, double (*join)(double, double)) const {
    double all = 0;
    for (const CutTree::Node &node : tree_.nodes) {
      Set set = 0;
      for (std::size_t r = 0; r < placement.size(); ++r)
        set |= static_cast<Set>(node.devices >> placement[r] & 1U) << r;
      all = join(all, terms(node, set, join, unlimited));
    }
    return all;
  }

private:
  using Table = std::map<Set, double>;

  double terms(const CutTree::Node &node, Set set, double (*join)(double, double),
               double limit) const {
    double out = 0;
    double in = 0;
    for (std::size_t r = 0; r < traffic_.size(); ++r) {
      for (std::size_t s = 0; s < traffic_.size(); ++s) {
        if ((set >> r & 1U) != 0 && (set >> s & 1U) == 0) {
          out += traffic_.flow(r, s);
          in += traffic_.flow(s, r);
        }
      }
    }
    double all = 0;
    for (const CutTerm &term : node.terms) {
      double each = std::max({term.out * out, term.in * in, term.both * (out + in)});
      if (each > 0)
        each += term.fixed;
      all = join(all, each > limit ? unlimited : each);
    }
    return all;
  }

  Table below(std::uint32_t number, double (*join)(double, double), double limit) const {
    const CutTree::Node &node = tree_.nodes[number];
    Table all;
    if (node.children.empty()) {
      for (std::uint32_t r = 0; r < tree_.devices; ++r) {
        if (traffic_.free_rank(r) || (node.devices >> traffic_.pinned[r] & 1U) != 0)
          all[Set{1} << r] = 0;
      }
    } else {
      all[0] = 0;
      for (const std::uint32_t child : node.children)
        all = joined(all, below(child, join, limit), join);
    }
    for (auto &[set, value] : all)
      value = join(value, terms(node, set, join, limit));
    return all;
  }

  static Table joined(const Table &one, const Table &other, double (*join)(double, double)) {
    Table all;
    for (const auto &[a, first] : one) {
      for (const auto &[b, second] : other) {
        if ((a & b) != 0)
          continue;
        const auto [at, is_new] = all.try_emplace(a | b, unlimited);
        at->second = std::min(at->second, join(first, second));
      }
    }
    return all;
  }

  const CutTree &tree_;
  const Qap &traffic_;
};

/// What stands below a node: a number of leaves, or nodes of their own.
struct Shape {
  std::uint32_t leaves = 0;
  std::vector<Shape> parts = {};
};

/// Terms are drawn once for all nodes of one depth and size, so that equal parts are equal, or for
/// every node anew.
class TreeBuilder {
public:
  TreeBuilder(Rng &rng, bool equal, bool directed)
      : rng_(rng), equal_(equal), directed_(directed) {}

  CutTree build(const Shape &root) {
    add(root, 0);
    tree_.devices = next_device_;
    return tree_;
  }

  /// Only the first part of the root keeps its terms: one link joins the two.
  void join_parts_by_one_link() { one_link_ = true; }

private:
  std::uint32_t add(const Shape &shape, std::uint32_t depth) {
    const auto number = static_cast<std::uint32_t>(tree_.nodes.size());
    tree_.nodes.emplace_back();
    if (depth > 0 && !(one_link_ && depth == 1 && number > 1))
      tree_.nodes[number].terms = terms(depth, shape.leaves + 100 * shape.parts.size());
    if (shape.leaves == 1 && shape.parts.empty()) {
      tree_.nodes[number].devices = std::uint64_t{1} << next_device_++;
      return number;
    }
    std::vector<Shape> parts = shape.parts;
    parts.resize(parts.size() + shape.leaves, Shape{1});
    for (const Shape &part : parts) {
      const std::uint32_t child = add(part, depth + 1);
      tree_.nodes[number].children.push_back(child);
      tree_.nodes[number].devices |= tree_.nodes[child].devices;
    }
    return number;
  }

  std::vector<CutTerm> terms(std::uint32_t depth, std::size_t kind) {
    if (!equal_)
      return drawn();
    const auto [at, is_new] = known_.try_emplace({depth, kind});
    if (is_new)
      at->second = drawn();
    return at->second;
  }

  std::vector<CutTerm> drawn() {
    CutTerm term{1.0 + rng_.below(4), 1.0 + rng_.below(4), rng_.below(2) == 0 ? 2.0 : 0.0,
                 rng_.below(4) == 0 ? 3.0 : 0.0};
    if (!directed_)
      term.in = term.out;
    return {term};
  }

  Rng &rng_;
  bool equal_;
  bool directed_;
  bool one_link_ = false;
  CutTree tree_;
  std::uint32_t next_device_ = 0;
  std::map<std::pair<std::uint32_t, std::size_t>, std::vector<CutTerm>> known_;
};

Qap random_traffic(std::size_t ranks, Rng &rng) {
  Qap qap;
  qap.flow = qap.distance = Matrix(ranks);
  qap.active = ranks;
  qap.pinned.assign(ranks, Qap::no_pin);
  const std::uint32_t sparsity = 1 + rng.below(6);
  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t s = 0; s < ranks; ++s)
      qap.flow(r, s) = r != s && rng.below(sparsity) == 0 ? 1 + rng.below(20) : 0;
  }
  return qap;
}

void check_optima(const CutTree &tree, const Qap &qap) {
  const Oracle oracle(tree, qap);
  const double least_max = oracle.best(larger);
  const double least_sum = oracle.best(sum);
  const auto of_max = min_max_on_tree(tree, qap);
  const auto of_sum = min_sum_on_tree(tree, qap);
  REQUIRE((of_max && of_sum));
  CHECK(of_max->value == Approx(least_max));
  CHECK(oracle.value(of_max->placement, larger) == Approx(least_max));
  CHECK(of_sum->value == Approx(least_sum));
  CHECK(oracle.value(of_sum->placement, sum) == Approx(least_sum));
  const auto both = min_max_then_sum_on_tree(tree, qap, least_max * (1 + 1e-9));
  REQUIRE(both);
  CHECK(oracle.value(both->placement, larger) == Approx(least_max));
  CHECK(oracle.value(both->placement, sum) == Approx(oracle.best(sum, least_max * (1 + 1e-9))));
  // An upper limit hides what is not below it, and nothing else.
  CHECK_FALSE(min_max_on_tree(tree, qap, least_max * (1 - 1e-6)));
  CHECK_FALSE(min_sum_on_tree(tree, qap, least_sum * (1 - 1e-6)));
  CHECK(min_max_on_tree(tree, qap, least_max * (1 + 1e-6)));
  CHECK(min_sum_on_tree(tree, qap, least_sum * (1 + 1e-6)));
}

/// Least sum and least maximum over all ways of seating the first three of `order`: the others are
/// idle and fill up.
std::pair<double, double> least_of_three(const CutTree &tree, const Oracle &oracle,
                                         const Assignment &order) {
  constexpr std::size_t heard = 3;
  double least_sum = unlimited;
  double least_max = unlimited;
  Assignment seats(heard);
  const std::function<void(std::size_t)> seat = [&](std::size_t next) {
    if (next == heard) {
      Assignment placement(order.size());
      std::vector<bool> taken(order.size(), false);
      for (std::size_t i = 0; i < heard; ++i) {
        placement[order[i]] = seats[i];
        taken[seats[i]] = true;
      }
      std::uint32_t free = 0;
      for (std::size_t i = heard; i < order.size(); ++i, ++free) {
        while (taken[free])
          ++free;
        placement[order[i]] = free;
      }
      least_sum = std::min(least_sum, oracle.value(placement, sum));
      least_max = std::min(least_max, oracle.value(placement, larger));
      return;
    }
    for (std::uint32_t device = 0; device < tree.devices; ++device) {
      if (std::find(seats.begin(), seats.begin() + static_cast<std::ptrdiff_t>(next), device) !=
          seats.begin() + static_cast<std::ptrdiff_t>(next))
        continue;
      seats[next] = device;
      seat(next + 1);
    }
  };
  seat(0);
  return {least_sum, least_max};
}

const Shape pair{2};
const Shape four{4};
const Shape two_pairs{0, {pair, pair}};

} // namespace

TEST_CASE("trees: the best split, whatever the parts are made of", "[map]") {
  Rng rng(31);
  const Shape eight{0, {four, four}};
  const Shape eight_of_pairs{0, {two_pairs, two_pairs}};
  const std::vector<Shape> roots = {
      {0, {four, four}},           // 8 = 4 + 4
      {0, {two_pairs, two_pairs}}, // of pairs
      {0, {two_pairs, {3}}},       // 7: one device may not be used
      {0, {four, {1, {pair}}}},    // the parts differ
      {4, {four}},                 // one part is four devices of their own
      {0, {eight, four}},          // 12 = 8 + 4
      {0, {eight_of_pairs, pair}}, // 10 = 8 + 2
      {0, {eight, {1, {pair}}}},   // 11 = 8 + 3
      {1, {{5}, {4}, {3}}},        // 13, of four kinds
      {0, {{0, {{3}, pair}}, {1, {{3}, pair}}, pair}},
  };
  for (int repetition = 0; repetition < 5; ++repetition) {
    for (const Shape &root : roots) {
      TreeBuilder builder(rng, rng.below(2) == 0, rng.below(2) == 0);
      if (rng.below(2) == 0)
        builder.join_parts_by_one_link();
      const CutTree tree = builder.build(root);
      Qap qap = random_traffic(tree.devices, rng);
      check_optima(tree, qap);
      qap.pinned[rng.below(tree.devices)] = rng.below(tree.devices);
      check_optima(tree, qap);
    }
  }
}

TEST_CASE("trees of 16 devices for a few ranks: the others are idle", "[map]") {
  Rng rng(32);
  for (int repetition = 0; repetition < 12; ++repetition) {
    TreeBuilder builder(rng, repetition % 2 == 0, rng.below(2) == 0);
    const CutTree tree =
        builder.build(repetition % 3 == 0 ? Shape{0, {{0, {four, four}}, {0, {four, four}}}}
                                          : Shape{0, {{7}, {0, {{3}, pair}}, four}});
    Qap qap = random_traffic(tree.devices, rng);
    const Assignment order = rng.permutation(tree.devices);
    for (std::size_t idle = 3; idle < order.size(); ++idle) {
      for (std::size_t other = 0; other < order.size(); ++other)
        qap.flow(order[idle], other) = qap.flow(other, order[idle]) = 0;
    }
    const auto of_sum = min_sum_on_tree(tree, qap);
    const auto of_max = min_max_on_tree(tree, qap);
    REQUIRE((of_sum && of_max));
    const Oracle oracle(tree, qap);
    CHECK(oracle.value(of_sum->placement, sum) == Approx(of_sum->value));
    CHECK(oracle.value(of_max->placement, larger) == Approx(of_max->value));
    const auto [least_sum, least_max] = least_of_three(tree, oracle, order);
    CHECK(of_sum->value == Approx(least_sum));
    CHECK(of_max->value == Approx(least_max));
  }
}
