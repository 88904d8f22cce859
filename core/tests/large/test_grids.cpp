// Process grids found in traffic, and orders that follow from them.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "catch.hpp"
#include "large_machines.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "large/geometric_orders.hpp"
#include "large/hidden_grid.hpp"
#include "large/process_grid.hpp"
#include "toposeat/large/map_large.hpp"

using namespace toposeat;
using namespace toposeat::testing;

TEST_CASE("a process grid is recognised from its traffic, and a random graph is none") {
  RankTraffic traffic;
  traffic.ranks = 6 * 4 * 5;
  for (std::uint32_t r = 0; r < traffic.ranks; ++r) {
    const std::uint32_t z = r % 5;
    const std::uint32_t y = r / 5 % 4;
    const std::uint32_t x = r / 20;
    if (z + 1 < 5)
      traffic.flows.push_back({r, r + 1, 3, 1});
    if (y + 1 < 4)
      traffic.flows.push_back({r, r + 5, 2, 1});
    if (x + 1 < 6)
      traffic.flows.push_back({r, r + 20, 1, 1});
  }
  const auto grid = recognise_grid(rank_graph(traffic, traffic.ranks), Deadline::in(60));
  REQUIRE(grid.has_value());
  REQUIRE(grid->extents == std::vector<std::uint32_t>{6, 4, 5});
  REQUIRE_FALSE(grid->wraps);
  REQUIRE_FALSE(
      recognise_grid(rank_graph(random_traffic(120, 4, 1), 120), Deadline::in(60)).has_value());
}

namespace {

/// A stencil on a grid of three dimensions whose ranks are numbered at random: `place[r]`.
/// `reach` dimensions may change in one step: 1 faces only, 3 all 26 neighbours. A weight for each
/// number of them.
RankTraffic shuffled_stencil(const std::vector<std::uint32_t> &extents, std::uint32_t reach,
                             const std::vector<double> &weights, bool wraps,
                             const std::vector<std::uint32_t> &rank_at) {
  RankTraffic traffic;
  traffic.ranks = extents[0] * extents[1] * extents[2];
  for (std::uint32_t here = 0; here < traffic.ranks; ++here) {
    for (std::uint32_t step = 0; step < 27; ++step) {
      const std::uint32_t moves[3] = {step / 9, step / 3 % 3, step % 3}; // 0 back, 1 none, 2 on
      const std::uint32_t at[3] = {here / extents[2] / extents[1], here / extents[2] % extents[1],
                                   here % extents[2]};
      std::uint32_t there = 0;
      std::uint32_t changed = 0;
      bool inside = true;
      for (std::size_t d = 0; d < 3; ++d) {
        const std::uint32_t to = at[d] + extents[d] + moves[d] - 1;
        inside = inside && (wraps || (to >= extents[d] && to < 2 * extents[d]));
        there = there * extents[d] + to % extents[d];
        changed += moves[d] != 1 ? 1 : 0;
      }
      if (inside && changed > 0 && changed <= reach && there != here)
        traffic.flows.push_back({rank_at[here], rank_at[there], weights[changed - 1], 1});
    }
  }
  return traffic;
}

/// Faces of the grid that the ranks' places span: neighbours in the given grid that are neighbours
/// in the one found, by steps of all dimensions together.
bool same_neighbours(const std::vector<std::uint32_t> &extents, const HiddenGrid &found,
                     const std::vector<std::uint32_t> &rank_at) {
  const auto step_of = [&](std::uint32_t a, std::uint32_t b) {
    std::uint32_t steps = 0;
    for (std::size_t d = found.extents.size(); d-- > 0;) {
      const std::uint32_t x = a % found.extents[d];
      const std::uint32_t y = b % found.extents[d];
      steps += std::min(x > y ? x - y : y - x, found.extents[d] - (x > y ? x - y : y - x));
      a /= found.extents[d];
      b /= found.extents[d];
    }
    return steps;
  };
  for (std::uint32_t here = 0; here < rank_at.size(); ++here) {
    const std::uint32_t stride[3] = {extents[1] * extents[2], extents[2], 1};
    for (std::size_t d = 0; d < 3; ++d) {
      if (here / stride[d] % extents[d] + 1 < extents[d] &&
          step_of(found.place[rank_at[here]], found.place[rank_at[here + stride[d]]]) != 1)
        return false;
    }
  }
  return true;
}

} // namespace

TEST_CASE(
    "a grid is found behind ranks in no order: chains and rings, with and without diagonals") {
  struct Shape {
    std::vector<std::uint32_t> extents;
    std::uint32_t reach;
    std::vector<double> weights;
    bool wraps;
  };
  const std::vector<double> fading{64, 8, 1};
  const std::vector<double> even{1, 1, 1};
  const std::vector<Shape> shapes{
      {{6, 5, 4}, 1, even, false},   {{6, 5, 3}, 3, fading, false}, {{7, 3, 4}, 3, even, false},
      {{5, 5, 5}, 3, even, false},   {{4, 2, 3}, 3, fading, false}, {{7, 6, 5}, 1, even, true},
      {{7, 6, 5}, 3, fading, true},  {{8, 7, 6}, 3, even, true},    {{9, 8, 1}, 2, even, false},
      {{6, 5, 4}, 2, fading, false},
  };
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (const Shape &shape : shapes) {
      const std::uint32_t ranks = shape.extents[0] * shape.extents[1] * shape.extents[2];
      const auto rank_at = Rng(seed).permutation(ranks);
      const RankTraffic traffic =
          shuffled_stencil(shape.extents, shape.reach, shape.weights, shape.wraps, rank_at);
      CAPTURE(shape.extents, shape.reach, shape.wraps, seed);
      const auto found = hidden_grid(rank_graph(traffic, ranks));
      REQUIRE(found.has_value());
      auto extents = shape.extents;
      std::erase(extents, 1U);
      std::sort(extents.rbegin(), extents.rend());
      REQUIRE(found->extents == extents);
      REQUIRE(std::set<std::uint32_t>(found->place.begin(), found->place.end()).size() == ranks);
      REQUIRE(same_neighbours(shape.extents, *found, rank_at));
    }
  }
}

TEST_CASE("no grid is found where there is none") {
  const auto found = [](const RankTraffic &traffic) {
    return hidden_grid(rank_graph(traffic, traffic.ranks)).has_value();
  };
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    REQUIRE_FALSE(found(random_traffic(120, 4, seed)));
    REQUIRE_FALSE(found(random_traffic(16, 3, seed)));
  }
  const auto rank_at = Rng(1).permutation(120);
  RankTraffic traffic = shuffled_stencil({6, 5, 4}, 1, {1, 1, 1}, false, rank_at);
  traffic.ranks = 121; // one who says nothing
  REQUIRE_FALSE(found(traffic));
  traffic.ranks = 120;
  traffic.flows.push_back({rank_at[0], rank_at[119], 1, 1}); // a light edge across it all
  REQUIRE(found(traffic));
  traffic.flows.push_back({rank_at[119], rank_at[0], 1, 1}); // as heavy as those of the grid
  REQUIRE_FALSE(found(traffic));
  RankTraffic star;
  star.ranks = 200;
  for (std::uint32_t r = 1; r < star.ranks; ++r)
    star.flows.push_back({0, r, 1, 1});
  REQUIRE_FALSE(found(star));
  REQUIRE_FALSE(found({1, {}}));
  REQUIRE_FALSE(found({5, {}}));
}

TEST_CASE("a stencil is placed as well with its ranks in no order") {
  const std::vector<std::uint32_t> extents{8, 8, 4};
  const LargeMachine machine = hierarchy({4, 4, 16});
  const auto placed_cost = [&](const std::vector<std::uint32_t> &rank_at) {
    const RankTraffic traffic = shuffled_stencil(extents, 3, {64, 8, 1}, false, rank_at);
    return map_large(
               {traffic, machine, LargeObjective::cost, LargeMethod::geometric, 10, 1, {}, {}})
        .placed.cost;
  };
  std::vector<std::uint32_t> in_order(256);
  std::iota(in_order.begin(), in_order.end(), 0U);
  const double cost = placed_cost(in_order);
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    REQUIRE(placed_cost(Rng(seed).permutation(256)) == cost);
}

TEST_CASE("curves visit every rank once; Hilbert only steps to neighbours on a full cube") {
  const ProcessGrid cube{{8, 8, 8}, {1, 1, 1}, false};
  const std::vector<std::uint32_t> hilbert = hilbert_order(cube);
  REQUIRE(one_to_one(hilbert, 512));
  for (std::size_t i = 1; i < hilbert.size(); ++i) {
    std::uint32_t steps = 0;
    for (const std::uint32_t unit : {1U, 8U, 64U}) {
      const std::uint32_t x = hilbert[i] / unit % 8;
      const std::uint32_t y = hilbert[i - 1] / unit % 8;
      steps += x > y ? x - y : y - x;
    }
    REQUIRE(steps == 1);
  }
  const ProcessGrid odd{{5, 3, 7}, {1, 1, 1}, false};
  REQUIRE(one_to_one(hilbert_order(odd), 105));
  REQUIRE(one_to_one(morton_order(odd), 105));
  REQUIRE(one_to_one(block_order(odd, {{2, 2, 2}, {4, 2, 4}}), 105));
}

TEST_CASE("blocks of 4:8 on a 16x16x16 grid are 4x4x2 blocks of 2x2x1") {
  const ProcessGrid grid{{16, 16, 16}, {1, 1, 1}, false};
  const auto blocks = best_blocks(grid, {4, 8, 128}, {1, 10, 100});
  REQUIRE(blocks.size() == 2);
  std::vector<std::uint32_t> small = blocks[0];
  std::vector<std::uint32_t> large = blocks[1];
  std::sort(small.begin(), small.end());
  std::sort(large.begin(), large.end());
  REQUIRE(small == std::vector<std::uint32_t>{1, 2, 2});
  REQUIRE(large == std::vector<std::uint32_t>{2, 4, 4});
}
