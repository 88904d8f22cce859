// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/floors.hpp"

#include "catch.hpp"
#include "network_builder.hpp"
#include "request_checks.hpp"

using namespace toposeat;
using toposeat::testing::NetworkBuilder;
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
