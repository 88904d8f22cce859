// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <limits>

#include "base/rng.hpp"
#include "bounds/dual_ascent.hpp"
#include "bounds/gilmore_lawler.hpp"
#include "catch.hpp"
#include "exact/branch_and_bound.hpp"
#include "exact/cut_tree.hpp"
#include "exact/subset_dp.hpp"
#include "qap_brute_force.hpp"
#include "toposeat/problem/symmetry.hpp"
#include "toposeat/search/cost_search.hpp"

using namespace toposeat;
using namespace toposeat::testing;

namespace {

RankTraffic random_traffic(std::uint32_t ranks, Rng &rng, std::uint32_t sparsity) {
  RankTraffic traffic{ranks, {}};
  for (std::uint32_t i = 0; i < ranks; ++i) {
    for (std::uint32_t j = 0; j < ranks; ++j) {
      if (i != j && rng.below(sparsity) == 0)
        traffic.flows.push_back({i, j, static_cast<double>(rng.below(100)), 1});
    }
  }
  return traffic;
}

Matrix random_cost(std::size_t size, Rng &rng) {
  Matrix cost(size);
  for (double &value : cost.values)
    value = 1 + 0.37 * rng.below(12);
  return cost;
}

/// Cost by the level of the lowest common ancestor; `arities` from the leaves up.
Matrix tree_cost(const std::vector<std::size_t> &arities, const std::vector<double> &costs) {
  std::size_t size = 1;
  for (const std::size_t arity : arities)
    size *= arity;
  Matrix cost(size);
  for (std::size_t a = 0; a < size; ++a) {
    for (std::size_t b = 0; b < size; ++b) {
      std::size_t x = a;
      std::size_t y = b;
      for (std::size_t level = 0; x != y; ++level) {
        x /= arities[level];
        y /= arities[level];
        cost(a, b) = costs[level];
      }
    }
  }
  return cost;
}

} // namespace

TEST_CASE("a swap's delta is the difference of the costs", "[map]") {
  Rng rng(3);
  const Qap qap = make_qap(random_traffic(7, rng, 2), random_cost(9, rng));
  Assignment placement = rng.permutation(9);
  for (std::size_t r = 0; r < 9; ++r) {
    for (std::size_t s = r + 1; s < 9; ++s) {
      Assignment swapped = placement;
      std::swap(swapped[r], swapped[s]);
      CHECK(swap_delta(qap, placement, r, s) ==
            Approx(qap_cost(qap, swapped) - qap_cost(qap, placement)).margin(1e-9));
    }
  }
}

TEST_CASE("branch and bound equals brute force on any 8 devices", "[map]") {
  Rng rng(11);
  for (int k = 0; k < 12; ++k) {
    const std::uint32_t ranks = k % 3 == 0 ? 6 : 8;
    Qap qap = make_qap(random_traffic(ranks, rng, k % 2 == 0 ? 1 : 3),
                       k % 4 == 3 ? tree_cost({2, 2, 2}, {1, 2, 3}) : random_cost(8, rng));
    if (k >= 8) {
      qap.pinned[1] = 5;
      qap.pinned[4] = 0;
    }
    Assignment start = identity(8);
    if (k >= 8)
      start = {1, 5, 2, 3, 0, 4, 6, 7};
    const BoundedAnswer answer = branch_and_bound(qap, start, Deadline::in(60));
    CHECK(answer.proved);
    CHECK(keeps_rules(qap, answer.placement));
    CHECK(answer.value == Approx(brute_force(qap)));
    CHECK(qap_cost(qap, answer.placement) == Approx(answer.value));
  }
}

TEST_CASE("bounds never exceed the optimum", "[map]") {
  Rng rng(5);
  for (int k = 0; k < 8; ++k) {
    const Qap qap = make_qap(random_traffic(7, rng, 2), random_cost(7, rng));
    const double best = brute_force(qap);
    CHECK(gilmore_lawler_bound(qap) <= best * (1 + 1e-9));
    ReducedQap reduced(qap);
    reduced.improve(unlimited, 50, Deadline::in(60));
    CHECK(reduced.bound() <= best * (1 + 1e-9));
    CHECK(reduced.bound() >= 0.9 * gilmore_lawler_bound(qap));
    // Fixing a pair bounds the placements that contain it: the least over a row is a bound too.
    double least = unlimited;
    for (std::size_t d = 0; d < 7; ++d)
      least = std::min(least, reduced.bound() + reduced.leader(0, d));
    CHECK(least <= best * (1 + 1e-9));
  }
}

TEST_CASE("an interrupted branch and bound still bounds", "[map]") {
  Rng rng(8);
  const Qap qap = make_qap(random_traffic(16, rng, 1), random_cost(16, rng));
  const BoundedAnswer answer = branch_and_bound(qap, identity(16), Deadline::in(0.05));
  CHECK_FALSE(answer.proved);
  CHECK(answer.lower_bound >= gilmore_lawler_bound(qap) * (1 - 1e-9));
  CHECK(answer.lower_bound <= answer.value);
}

TEST_CASE("the tree DP equals brute force on every shape of 8 devices", "[map]") {
  Rng rng(21);
  const std::vector<std::pair<std::vector<std::size_t>, std::vector<double>>> shapes{
      {{2, 2, 2}, {1, 2.5, 4}}, {{4, 2}, {1, 3}}, {{2, 4}, {1, 3}}, {{8}, {2}}};
  for (const auto &[arities, costs] : shapes) {
    for (int k = 0; k < 4; ++k) {
      Qap qap = make_qap(random_traffic(k == 1 ? 5 : 8, rng, 2), tree_cost(arities, costs));
      if (k >= 2) {
        qap.pinned[0] = 3;
        qap.pinned[4] = 6;
      }
      const auto tree = cost_tree(qap);
      REQUIRE(tree);
      const auto answer = min_sum_on_tree(*tree, qap);
      REQUIRE(answer);
      CHECK(keeps_rules(qap, answer->placement));
      CHECK(answer->value == Approx(brute_force(qap)));
      CHECK(qap_cost(qap, answer->placement) == Approx(answer->value));
      CHECK_FALSE(min_sum_on_tree(*tree, qap, answer->value).has_value());
    }
  }
}

TEST_CASE("an unbalanced tree with three arities is found and solved", "[map]") {
  //            root (5)
  //        /     |      \            {0} alone, {1,2,3} flat at cost 1, {4,5},{6,7} at 1 in
  //      d0   {1,2,3}  {4,5,6,7}     a block at cost 2
  Matrix cost(8);
  for (std::size_t a = 0; a < 8; ++a) {
    for (std::size_t b = 0; b < 8; ++b) {
      const auto block = [](std::size_t d) { return d == 0 ? 0 : (d < 4 ? 1 : 2); };
      cost(a, b) = a == b ? 0 : 5;
      if (a != b && block(a) == block(b))
        cost(a, b) = block(a) == 1 || a / 2 == b / 2 ? 1 : 2;
    }
  }
  Rng rng(33);
  for (int k = 0; k < 5; ++k) {
    const Qap qap = make_qap(random_traffic(8, rng, 2), cost);
    const auto tree = cost_tree(qap);
    REQUIRE(tree);
    const auto answer = min_sum_on_tree(*tree, qap);
    REQUIRE(answer);
    CHECK(answer->value == Approx(brute_force(qap)));
    CHECK(qap_cost(qap, answer->placement) == Approx(answer->value));
  }
}

TEST_CASE("what is no tree is not taken for one", "[map]") {
  Rng rng(1);
  Matrix ring(6);
  for (std::size_t a = 0; a < 6; ++a) {
    for (std::size_t b = 0; b < 6; ++b)
      ring(a, b) = static_cast<double>(std::min((a + 6 - b) % 6, (b + 6 - a) % 6));
  }
  CHECK_FALSE(cost_tree(make_qap(random_traffic(6, rng, 1), ring)));
  Matrix lopsided = tree_cost({2, 2}, {1, 2});
  lopsided(0, 3) = 7;
  CHECK_FALSE(cost_tree(make_qap(random_traffic(4, rng, 1), lopsided)));
}

TEST_CASE("16 devices: tree DP, branch and bound and tabu search agree", "[map]") {
  Rng rng(44);
  for (const auto &arities : std::vector<std::vector<std::size_t>>{{2, 2, 2, 2}, {4, 4}, {2, 8}}) {
    RankTraffic traffic{16, {}};
    for (std::uint32_t r = 0; r < 16; ++r) { // 4 x 4 torus, one dimension heavier, shuffled
      for (const std::uint32_t s : {(r & 12U) | ((r + 1) & 3U), (r + 4) & 15U}) {
        const double bytes = s / 4 == r / 4 ? 30 : 10;
        traffic.flows.push_back({r, s, bytes, 1});
        traffic.flows.push_back({s, r, bytes, 1});
      }
    }
    const Assignment shuffle = rng.permutation(16);
    for (Flow &flow : traffic.flows)
      flow = {shuffle[flow.source], shuffle[flow.target], flow.bytes, 1};
    const Qap qap = make_qap(traffic, tree_cost(arities, {1, 3, 4, 7}));
    const auto tree = cost_tree(qap);
    REQUIRE(tree);
    const auto exact = min_sum_on_tree(*tree, qap);
    REQUIRE(exact);
    SearchOptions options;
    options.target = exact->value;
    const CostAnswer found = search_cost(qap, identity(16), options, Deadline::in(60));
    CHECK(found.cost == Approx(exact->value));
    const BoundedAnswer proved = branch_and_bound(qap, found.placement, Deadline::in(10));
    CHECK(proved.value == Approx(exact->value));
    CHECK(proved.lower_bound <= exact->value * (1 + 1e-9));
  }
}

TEST_CASE("tabu search repeats itself for a seed and keeps pins", "[map]") {
  Rng rng(9);
  Qap qap = make_qap(random_traffic(12, rng, 1), random_cost(14, rng));
  qap.pinned[3] = 3;
  SearchOptions options;
  options.seed = 5;
  options.moves = 3000;
  const CostAnswer first = search_cost(qap, identity(14), options, Deadline::in(60));
  const CostAnswer again = search_cost(qap, identity(14), options, Deadline::in(60));
  CHECK(first.placement == again.placement);
  CHECK(keeps_rules(qap, first.placement));
  CHECK(first.cost == Approx(qap_cost(qap, first.placement)));
}

TEST_CASE("symmetries are those of the matrix", "[map]") {
  // A 4-cycle 0-1-3-2: all corners alike; with 0 fixed its two neighbours are alike.
  Matrix square(4);
  for (const auto &[a, b] : {std::pair(0, 1), std::pair(1, 3), std::pair(3, 2), std::pair(2, 0)}) {
    square(static_cast<std::size_t>(a), static_cast<std::size_t>(b)) = 1;
    square(static_cast<std::size_t>(b), static_cast<std::size_t>(a)) = 1;
  }
  const Symmetry symmetry(square);
  const std::vector<std::uint32_t> all{0, 1, 2, 3};
  CHECK(symmetry.representatives({}, all) == std::vector<std::uint32_t>{0});
  const std::vector<std::uint32_t> fixed{0};
  const std::vector<std::uint32_t> rest{1, 2, 3};
  CHECK(symmetry.representatives(fixed, rest) == std::vector<std::uint32_t>{1, 3});
}

TEST_CASE("less by a tolerance of the second number, which may be infinite or negative") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(less_by_tolerance(1, 2));
  CHECK_FALSE(less_by_tolerance(1, 1 + 1e-10));
  CHECK(less_by_tolerance(1, 1 + 1e-8));
  CHECK_FALSE(less_by_tolerance(-1, -1 + 1e-10));
  CHECK(less_by_tolerance(-1, -1 + 1e-8));
  CHECK(less_by_tolerance(1, infinity));
  CHECK_FALSE(less_by_tolerance(infinity, infinity));
  CHECK_FALSE(less_by_tolerance(infinity, 1));
}
