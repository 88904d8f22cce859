// Slots, pins, allowed devices and two-term costs against enumeration of all placements.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <functional>

#include "base/rng.hpp"
#include "catch.hpp"
#include "request_checks.hpp"
#include "small_machines.hpp"
#include "toposeat/certificate/solve.hpp"

using namespace toposeat;
using toposeat::testing::FreePairs;
using toposeat::testing::seating_fault;
using toposeat::testing::value_of;

namespace {

/// Three devices on a switch with unequal ports and a direct link; copies within a device take
/// time.
Network three_devices(Rng &rng) {
  NetworkBuilder builder(3);
  const auto speed = [&] { return 10.0 + rng.below(90); };
  for (int i = 0; i < 3; ++i)
    builder.link(speed(), speed());
  const std::uint32_t direct = builder.link(speed(), speed(), speed());
  for (std::uint32_t i = 0; i < 3; ++i) {
    for (std::uint32_t j = 0; j < 3; ++j) {
      const double latency = 0.001 * rng.below(9);
      if (i == j)
        builder.route(i, j, {}, 500, 0.001);
      else if (i + j == 1)
        builder.route(i, j, {{direct, i > j}}, unlimited, latency);
      else
        builder.route(i, j, {{i, false}, {j, true}}, 40.0 + rng.below(60), latency);
    }
  }
  return builder.build();
}

RankTraffic some_traffic(std::uint32_t ranks, Rng &rng) {
  RankTraffic traffic{ranks, {}};
  for (std::uint32_t i = 0; i < ranks; ++i) {
    for (std::uint32_t j = 0; j < ranks; ++j) {
      if (i != j && rng.below(3) != 0)
        traffic.flows.push_back({i, j, 1.0 + rng.below(99), 1.0 + rng.below(20)});
    }
  }
  return traffic;
}

Matrix some_cost(std::size_t devices, Rng &rng) {
  Matrix cost(devices);
  for (double &each : cost.values)
    each = 0.25 * (1 + rng.below(20));
  return cost;
}

double least(const MapRequest &request) {
  double best = unlimited;
  Assignment placement(request.traffic->ranks, 0);
  const std::function<void(std::size_t)> extend = [&](std::size_t rank) {
    if (rank == placement.size()) {
      if (seating_fault(request, placement) == nullptr)
        best = std::min(best, value_of(request, placement));
      return;
    }
    for (std::uint32_t device = 0; device < request.network->devices; ++device) {
      placement[rank] = device;
      extend(rank + 1);
    }
  };
  extend(0);
  return best;
}

void check_against_enumeration(MapRequest &request) {
  for (const Objective objective : {Objective::cost, Objective::congestion, Objective::time}) {
    for (const Method method : {Method::automatic, Method::search, Method::random}) {
      request.objective = objective;
      request.method = method;
      const double optimum = least(request);
      const MapAnswer answer = solve(request);
      CHECK(seating_fault(request, answer.device_of_rank) == nullptr);
      CHECK(answer.value == Approx(value_of(request, answer.device_of_rank)));
      CHECK(answer.value >= optimum * (1 - 1e-9));
      if (answer.lower_bound)
        CHECK(*answer.lower_bound <= optimum * (1 + 1e-9));
      if (answer.proved)
        CHECK(answer.value == Approx(optimum));
      if (method != Method::random)
        CHECK(answer.value <= value_of(request, default_assignment(request)) * (1 + 1e-9));
    }
  }
}

} // namespace

TEST_CASE("slots, pins and allowed devices agree with enumeration", "[seats]") {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Rng rng(seed);
    const Network network = three_devices(rng);
    const RankTraffic traffic = some_traffic(5, rng);
    MapRequest request{network, traffic, some_cost(3, rng)};
    request.budget_s = 5;
    request.slots = {2, 1 + rng.below(2), 2 + rng.below(2)};
    if (seed % 2 == 1)
      request.message_cost = some_cost(3, rng);
    if (seed % 3 == 1)
      request.pinned = {no_pin, 2, no_pin, 2, no_pin};
    if (seed % 3 == 2)
      request.allowed = {{0, 1}, {}, {2}, {0, 2}, {}};
    check_against_enumeration(request);
  }
}

TEST_CASE("the default fills hosts in order and goes round their devices", "[seats]") {
  const Network network = FreePairs(4).build();
  const RankTraffic traffic = toposeat::testing::traffic_of(7, {});
  MapRequest request{network, traffic, Matrix(4)};
  request.slots = {2, 2, 2, 2};
  CHECK(default_assignment(request) == Assignment{0, 1, 2, 3, 0, 1, 2});
  request.host_of_device = {0, 0, 1, 1};
  CHECK(default_assignment(request) == Assignment{0, 1, 0, 1, 2, 3, 2});
  request.slots = {3, 1, 2, 1};
  CHECK(default_assignment(request) == Assignment{0, 1, 0, 0, 2, 3, 2});
  request.pinned.assign(7, no_pin);
  request.pinned[6] = 0;
  CHECK(default_assignment(request) == Assignment{1, 0, 0, 2, 3, 2, 0});
}

TEST_CASE("ranks make room for those that may use little", "[seats]") {
  const Network network = FreePairs(3).build();
  const RankTraffic traffic = toposeat::testing::traffic_of(3, {});
  MapRequest request{network, traffic, Matrix(3)};
  request.allowed = {{}, {0, 1}, {0}};
  CHECK_FALSE(seating_conflict(request));
  const Assignment placement = default_assignment(request);
  CHECK(placement == Assignment{2, 1, 0});
}

TEST_CASE("too few devices for some ranks are named", "[seats]") {
  const Network network = FreePairs(4).build();
  const RankTraffic traffic = toposeat::testing::traffic_of(4, {});
  MapRequest request{network, traffic, Matrix(4)};
  request.allowed = {{0, 1}, {}, {0, 1}, {1, 0}};
  const auto conflict = seating_conflict(request);
  REQUIRE(conflict);
  CHECK(conflict->ranks == std::vector<std::uint32_t>{0, 2, 3});
  CHECK(conflict->devices == std::vector<std::uint32_t>{0, 1});
  CHECK_THROWS_AS(solve(request), std::invalid_argument);
  request.slots = {1, 2, 1, 1};
  CHECK_FALSE(seating_conflict(request));
}
