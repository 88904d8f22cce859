// Requests own what they are given; what refers to others is not made of temporaries.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "catch.hpp"
#include "small_machines.hpp"

#include <memory>
#include <type_traits>

#include "toposeat/certificate/solve.hpp"
#include "toposeat/flow/placement_model.hpp"
#include "toposeat/large/map_large.hpp"
#include "toposeat/large/node_orders.hpp"

using namespace toposeat;
using namespace toposeat::testing;

namespace {

/// Ranks 0 and 2 talk, as do 1 and 3: each pair belongs on a switch of its own.
RankTraffic crossed() { return traffic_of(4, {{0, 2, 1000, 1}, {1, 3, 1000, 1}}); }

template <class Model, class... Rest>
constexpr bool refers_to_what_lives =
    std::is_constructible_v<Model, const Network &, const RankTraffic &, Rest...> &&
    !std::is_constructible_v<Model, Network, const RankTraffic &, Rest...>;

} // namespace

TEST_CASE("a request made of temporaries is solved") {
  const MapRequest request{TwoSwitches({10, 10}).network, crossed(), Matrix(4)};
  const MapAnswer answer = solve(request);
  CHECK(answer.proved);
  CHECK(answer.value == 10);
  CHECK(answer.device_of_rank[0] / 2 == answer.device_of_rank[2] / 2);
  const LargeAnswer large = solve({NodesMachine({2, 2}), crossed(), Objective::cost});
  CHECK(large.value == 0);
  CHECK_FALSE(large.lower_bound);
  CHECK(large.solver == large.placed().name);
  CHECK(large.device_of_rank == large.placed().slot_of_rank);
}

TEST_CASE("requests share what a pointer gives them, and a copy of one shares it too") {
  const auto traffic = std::make_shared<const RankTraffic>(crossed());
  MapRequest request{TwoSwitches({10, 10}).network, traffic, Matrix(4)};
  const MapRequest copy = request;
  CHECK(&*request.traffic == traffic.get());
  CHECK(&*copy.network == &*request.network);
  request.traffic = traffic_of(4, {});
  CHECK(copy.traffic->flows.size() == 2);
  CHECK_THROWS_AS(Shared<RankTraffic>(std::shared_ptr<const RankTraffic>()), std::invalid_argument);
}

TEST_CASE("models are not made of temporaries") {
  STATIC_REQUIRE(refers_to_what_lives<FlowModel>);
  STATIC_REQUIRE(refers_to_what_lives<PeakModel>);
  STATIC_REQUIRE(refers_to_what_lives<LinkLoads, Assignment>);
  STATIC_REQUIRE(refers_to_what_lives<PlacementModel, std::vector<double>>);
  STATIC_REQUIRE(!std::is_constructible_v<NodeOrders, ClusterMachine, std::vector<NodePhase>>);
}

TEST_CASE("a request without a cost asks for anything but the cost") {
  MapRequest request{TwoSwitches({10, 10}).network, crossed()};
  CHECK(solve(request).value == 10);
  request.objective = Objective::cost;
  CHECK_THROWS_AS(solve(request), std::invalid_argument);
}
