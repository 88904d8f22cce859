// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/flow/placement_model.hpp"

#include <algorithm>
#include <random>
#include <stdexcept>
#include <vector>

#include "catch.hpp"
#include "small_machines.hpp"

using namespace toposeat;
using namespace toposeat::testing;

TEST_CASE("all figures of a placement are those of the single evaluations", "[evaluation]") {
  const TwoSwitches machine({40, 30, 50}, 25, 0.01);
  std::vector<double> cost(16);
  for (std::size_t pair = 0; pair < cost.size(); ++pair)
    cost[pair] = static_cast<double>(pair * pair % 7);
  std::mt19937 random(5);
  std::vector<Flow> flows;
  for (std::uint32_t i = 0; i < 4; ++i) {
    for (std::uint32_t j = 0; j < 4; ++j) {
      if (i != j)
        flows.push_back({i, j, static_cast<double>(random() % 1000), 1});
    }
  }
  const RankTraffic traffic = traffic_of(4, flows);
  PlacementModel model(machine.network, traffic, cost);
  Assignment order = in_order(4);
  do {
    double total = 0;
    for (const Flow &flow : flows)
      total += flow.bytes * cost[order[flow.source] * 4 + order[flow.target]];
    const Congestion loads = congestion(machine.network, traffic, order);
    const PlacementFigures found = model.figures(order);
    CHECK(found.max_s == loads.max_s);
    CHECK(found.mean_s == Approx(loads.mean_s).epsilon(1e-12));
    CHECK(found.hop_bytes == loads.hop_bytes);
    CHECK(found.cost == total);
    CHECK(found.flow_s == flow_time(machine.network, traffic, order));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("costs are of pairs of devices", "[evaluation]") {
  const TwoSwitches machine({40, 30, 50});
  const RankTraffic traffic = traffic_of(4, {{0, 1, 10, 1}});
  CHECK_THROWS_AS(PlacementModel(machine.network, traffic, std::vector<double>(4)),
                  std::invalid_argument);
}
