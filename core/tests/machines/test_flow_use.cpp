// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/machines/large_prediction.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "catch.hpp"

using namespace toposeat;

namespace {

/// Two devices per node, two nodes: uplinks of devices 0 to 7 (up and down), then of nodes.
HierarchyMachine two_nodes() { return {{2, 2}, {1, 10}, {1e9, 1e9}, {1e-6, 1e-6}}; }

RankTraffic three_flows() {
  RankTraffic traffic;
  traffic.ranks = 3;
  traffic.flows = {{0, 1, 100, 1}, {1, 2, 50, 1}, {0, 2, 7, 1}};
  return traffic;
}

} // namespace

TEST_CASE("each flow tells the levels of its route, the link asked about and its distance") {
  const HierarchyMachine machine = two_nodes();
  REQUIRE(machine.links() == 12);
  std::vector<std::uint32_t> levels(12, 0);
  std::fill(levels.begin() + 8, levels.end(), 1);
  std::uint32_t first = 12; // link of the flow from slot 0 to slot 2
  machine.route(0, 2, [&](std::uint32_t link) { first = std::min(first, link); });
  // Ranks 0 and 1 in one node, rank 2 in the other.
  FlowUse use = flow_use(three_flows(), machine, {0, 1, 2}, levels, first);
  REQUIRE(use.levels == std::vector<std::uint32_t>{1, 3, 3});
  REQUIRE(use.distance == std::vector<double>{1, 10, 10});
  REQUIRE(use.over[2]);
  REQUIRE(!use.over[1]);
  // On one slot nothing is used; a level of 32 is counted nowhere.
  std::fill(levels.begin() + 8, levels.end(), 32);
  use = flow_use(three_flows(), machine, {0, 0, 2}, levels, first);
  REQUIRE(use.levels == std::vector<std::uint32_t>{0, 1, 1});
  REQUIRE(use.distance[0] == 0);
}

TEST_CASE("levels that are not those of the links are refused") {
  REQUIRE_THROWS_AS(flow_use(three_flows(), two_nodes(), {0, 1, 2}, {0, 1}, 0),
                    std::invalid_argument);
  const GroupedMachine grouped({{0, 1, 1, 0}, {0, 1, 1, 0}}, {0, 5, 5, 0});
  REQUIRE_THROWS_AS(flow_use(three_flows(), grouped, {0, 1, 2}, {}, 0), std::invalid_argument);
}
