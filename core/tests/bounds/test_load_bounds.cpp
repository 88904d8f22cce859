// SPDX-License-Identifier: MIT OR Apache-2.0
#include "bounds/load_bounds.hpp"

#include <vector>

#include "catch.hpp"
#include "request_checks.hpp"
#include "small_machines.hpp"

using namespace toposeat;
using toposeat::testing::value_of;

TEST_CASE("a link that one route passes twice is not on two routes") {
  NetworkBuilder builder(3);
  const std::uint32_t slow = builder.link(1e8, 1e9);
  const std::uint32_t fast = builder.link(1e9, 1e9);
  builder.route(0, 1, {{slow, false}, {slow, false}}).route(0, 2, {{fast, false}});
  builder.route(1, 0, {{slow, false}, {slow, false}, {fast, false}});
  builder.route(1, 2, {{slow, true}}).route(2, 1, {{fast, true}});
  builder.route(2, 0, {{slow, false}, {fast, true}});
  RankTraffic traffic;
  traffic.ranks = 2;
  traffic.flows = {{1, 0, 1000, 1}};
  MapRequest request{builder.build(), traffic, Matrix(3)};
  for (const Objective objective : {Objective::congestion, Objective::time}) {
    request.objective = objective;
    for (const Method method : {Method::keep_default, Method::automatic, Method::exact}) {
      request.method = method;
      const MapAnswer answer = solve(request);
      REQUIRE(answer.lower_bound);
      for (std::uint32_t a = 0; a < 3; ++a) {
        for (std::uint32_t b = 0; b < 3; ++b) {
          if (a != b)
            CHECK(*answer.lower_bound <= value_of(request, {a, b}) * (1 + 1e-9));
        }
      }
    }
  }
}

TEST_CASE("nothing is faster than the heaviest rank on the widest port, and than a single flow") {
  NetworkBuilder builder(4);
  std::vector<std::uint32_t> port;
  for (const double capacity : {1e9, 2e9, 2e9, 4e9})
    port.push_back(builder.link(capacity, capacity));
  for (std::uint32_t a = 0; a < 4; ++a) {
    for (std::uint32_t b = 0; b < 4; ++b) {
      if (a != b)
        builder.route(a, b, {{port[a], false}, {port[b], true}}, unlimited,
                      a + b == 1 ? 1e-6 : 3e-6);
    }
  }
  const Network network = builder.build();
  RankTraffic traffic;
  traffic.ranks = 4;
  traffic.flows = {{0, 1, 1000, 2}, {0, 2, 1000, 2}, {0, 3, 1000, 2}};
  const LoadBounds spread = load_bounds(network, traffic);
  CHECK(spread.congestion_s == 3000 / 4e9);
  CHECK(spread.start_s == 2 * 1e-6);
  CHECK(spread.time_s == 2 * 1e-6 + 1000 * (1 / 1e9)); // over the nearest pair, which is slow
  traffic.flows = {{0, 1, 4000, 2}};
  CHECK(load_bounds(network, traffic).congestion_s == 4000 / 2e9);
}

TEST_CASE("the rounds of a rank take at least its most frequent partner at the least latency") {
  // From each device the others are 1, 2 and 3 away; rank 1 waits 5 times for one and 2 for
  // another.
  NetworkBuilder builder(4);
  for (std::uint32_t a = 0; a < 4; ++a) {
    for (std::uint32_t b = 0; b < 4; ++b) {
      if (a != b)
        builder.route(a, b, {}, unlimited, a ^ b);
    }
  }
  RankTraffic traffic;
  traffic.ranks = 3;
  traffic.flows = {{1, 0, 0, 2, 2}, {1, 2, 0, 5, 5}, {0, 1, 0, 6, 6}};
  const Network network = builder.build();
  CHECK(load_bounds(network, traffic).time_s == 5 * 1 + 2 * 2);
  traffic.flows[1].rounds = 0;
  CHECK(load_bounds(network, traffic).time_s == 6);
}
