// Answers on 9 and 10 devices are never slower than the default.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <cmath>
#include <numeric>
#include <vector>

#include "base/rng.hpp"
#include "catch.hpp"
#include "request_checks.hpp"
#include "small_machines.hpp"

using namespace toposeat;
using namespace toposeat::testing;

namespace {

/// Devices below switches of `below`, links of a few speeds, so that some devices are
/// interchangeable.
struct Machine {
  Network network;
  Matrix cost;

  Machine(const std::vector<std::uint32_t> &below, std::uint32_t speeds, Rng &rng) {
    const std::uint32_t devices = std::accumulate(below.begin(), below.end(), 0U);
    NetworkBuilder builder(devices);
    std::vector<double> pace;
    const auto add = [&] {
      pace.push_back(10.0 * (1 + rng.below(speeds)));
      return builder.link(pace.back(), pace.back());
    };
    std::vector<std::uint32_t> port;
    std::vector<std::uint32_t> uplink;
    for (const std::uint32_t size : below) {
      const std::uint32_t up = add();
      for (std::uint32_t i = 0; i < size; ++i) {
        port.push_back(add());
        uplink.push_back(up);
      }
    }
    cost = Matrix(devices);
    for (std::uint32_t a = 0; a < devices; ++a) {
      for (std::uint32_t b = 0; b < devices; ++b) {
        if (a == b)
          continue;
        std::vector<LinkUse> uses{{port[a], false}, {port[b], true}};
        if (uplink[a] != uplink[b])
          uses.insert(uses.begin() + 1, {{uplink[a], false}, {uplink[b], true}});
        for (const LinkUse &use : uses)
          cost(a, b) = std::max(cost(a, b), 1000 / pace[use.link]);
        builder.route(a, b, uses, unlimited, 0.01);
      }
    }
    network = builder.build();
  }
};

RankTraffic random_traffic(std::uint32_t ranks, std::uint32_t talking, double density, Rng &rng) {
  std::vector<Flow> flows;
  for (std::uint32_t a = 0; a < talking; ++a) {
    for (std::uint32_t b = 0; b < talking; ++b) {
      if (a != b && rng.unit() < density)
        flows.push_back({a, b, 10.0 * (1 + rng.below(3)), 1.0 + rng.below(2)});
    }
  }
  return traffic_of(ranks, flows);
}

bool close(double a, double b) { return std::abs(a - b) <= 1e-12 * std::max(a, b); }

} // namespace

TEST_CASE("answers on trees of 9 and 10 devices are never slower than the default") {
  Rng rng(11);
  int kept = 0;
  int refused = 0;
  int taken = 0;
  for (int round = 0; round < 500; ++round) {
    const Machine machine({3, 2 + rng.below(2), 4}, 9, rng);
    const auto size = static_cast<std::uint32_t>(machine.cost.n);
    const std::uint32_t ranks = size - rng.below(3);
    const RankTraffic traffic = random_traffic(ranks, ranks, 0.1 + 0.2 * rng.unit(), rng);
    MapRequest request{machine.network, traffic, machine.cost};
    request.objective = round % 2 == 0 ? Objective::cost : Objective::congestion;
    const MapAnswer answer = solve(request);
    const Assignment home = default_assignment(request);
    REQUIRE(seating_fault(request, answer.device_of_rank) == nullptr);
    const double value = value_of(request, answer.device_of_rank);
    CHECK(close(answer.value, value));
    CHECK(value <= value_of(request, home) * (1 + 1e-9));
    CHECK(flow_time(machine.network, traffic, answer.device_of_rank) <=
          flow_time(machine.network, traffic, home) * (1 + 1e-9));
    REQUIRE(answer.lower_bound);
    CHECK(*answer.lower_bound <= value * (1 + 1e-9));
    CHECK(answer.proved == (value <= *answer.lower_bound * (1 + 1e-9)));
    kept += answer.kept_default;
    refused += !answer.proved;
    taken += !answer.proved && !answer.kept_default;
  }

  INFO(kept << " kept, " << refused << " refused");
  CHECK(kept < 250);
  CHECK(refused > 0);
  CHECK(taken > 0); // another one that is better than the default
  CHECK(refused < 250);
}
