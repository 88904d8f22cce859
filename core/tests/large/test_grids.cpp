// Process grids found in traffic, and orders that follow from them.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "catch.hpp"
#include "large_machines.hpp"

#include <algorithm>
#include <vector>

#include "large/geometric_orders.hpp"
#include "large/process_grid.hpp"

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

TEST_CASE("a grid is found by weight, and none where every pair is one of neighbours") {
  // A 4x2 halo beside as many far edges of little weight; then every pair alike.
  RankTraffic halo;
  RankTraffic even;
  halo.ranks = even.ranks = 8;
  for (std::uint32_t a = 0; a < 8; ++a) {
    for (std::uint32_t b = a + 1; b < 8; ++b) {
      const bool near = b - a == 2 || (b - a == 1 && a % 2 == 0);
      halo.flows.push_back({a, b, near ? 1000.0 : 10.0, 1});
      even.flows.push_back({a, b, 1000, 1});
    }
  }
  const auto grid = recognise_grid(rank_graph(halo, 8), Deadline::in(60));
  REQUIRE(grid.has_value());
  REQUIRE(grid->extents == std::vector<std::uint32_t>{4, 2});
  REQUIRE_FALSE(recognise_grid(rank_graph(even, 8), Deadline::in(60)).has_value());
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
