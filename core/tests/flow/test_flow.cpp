// Each section writes the system of inequations and the expected times, then asserts them.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/flow/flow.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "catch.hpp"
#include "small_machines.hpp"
#include "toposeat/problem/congestion.hpp"

using namespace toposeat;
using namespace toposeat::testing;

namespace {

double seconds(const Network &network, const RankTraffic &traffic) {
  return flow_time(network, traffic, in_order(traffic.ranks));
}

FlowTimes times(const Network &network, const RankTraffic &traffic) {
  return flow_times(network, traffic, in_order(traffic.ranks));
}

} // namespace

TEST_CASE("one flow has its narrowest link to itself", "[flow]") {
  // x <= 100 (two ports), x <= 50 (uplink): 200 / 50 = 4
  const TwoSwitches machine({50, 50, unlimited});
  const FlowTimes result = times(machine.network, traffic_of(4, {{0, 2, 200, 1}}));
  CHECK(result.seconds == 4);
  CHECK(result.finish_s == std::vector<double>{4});
  CHECK(result.last_flow == 0);
  CHECK(result.bottleneck == machine.uplink);
}

TEST_CASE("two flows over one uplink halve", "[flow]") {
  // x0 + x1 <= 50: x0 = x1 = 25, both finish at 200 / 25 = 8
  const TwoSwitches machine({50, 50, unlimited});
  const FlowTimes result = times(machine.network, traffic_of(4, {{0, 2, 200, 1}, {1, 3, 200, 1}}));
  CHECK(result.finish_s == std::vector<double>{8, 8});
  CHECK(result.bottleneck == machine.uplink);
}

TEST_CASE("what one flow leaves the other takes", "[flow]") {
  // x0 + x1 <= 50. Until 4: 25 each, flow 0 is done with its 100. Then x1 = 50: (300 - 100) / 50
  // = 4.
  const TwoSwitches machine({50, 50, unlimited});
  const FlowTimes result = times(machine.network, traffic_of(4, {{0, 2, 100, 1}, {1, 3, 300, 1}}));
  CHECK(result.finish_s == std::vector<double>{4, 8});
  CHECK(result.last_flow == 1);
}

TEST_CASE("opposite directions are independent unless there is a combined capacity", "[flow]") {
  const RankTraffic both = traffic_of(4, {{0, 2, 200, 1}, {3, 1, 200, 1}});
  SECTION("x0 <= 50, x1 <= 50: 4") {
    CHECK(seconds(TwoSwitches({50, 50, unlimited}).network, both) == 4);
  }
  SECTION("x0 <= 50, x1 <= 50, x0 + x1 <= 60: 200 / 30") {
    const TwoSwitches machine({50, 50, 60});
    const FlowTimes result = times(machine.network, both);
    CHECK(result.seconds == Approx(200.0 / 30));
    CHECK(result.bottleneck == machine.uplink);
  }
  SECTION("alone a flow still gets its direction's 50") {
    CHECK(seconds(TwoSwitches({50, 50, 60}).network, traffic_of(4, {{0, 2, 200, 1}})) == 4);
  }
  SECTION("only a combined capacity: x0 + x1 <= 40: 200 / 20 = 10") {
    CHECK(seconds(TwoSwitches({unlimited, unlimited, 40}).network, both) == 10);
  }
  SECTION("directions may differ: x0 <= 20, x1 <= 50") {
    const FlowTimes result = times(TwoSwitches({20, 50, unlimited}).network, both);
    CHECK(result.finish_s == std::vector<double>{10, 4});
  }
}

TEST_CASE("a far pair does not reach the shared capacity even alone", "[flow]") {
  const TwoSwitches machine({50, 50, unlimited}, 20);
  SECTION("x0 <= 20, x0 <= 50: 200 / 20 = 10, and no link is to blame") {
    const FlowTimes result = times(machine.network, traffic_of(4, {{0, 2, 200, 1}}));
    CHECK(result.seconds == 10);
    CHECK(result.bottleneck == no_link);
  }
  SECTION("two do not disturb each other: x0, x1 <= 20, x0 + x1 <= 50") {
    const RankTraffic two = traffic_of(4, {{0, 2, 200, 1}, {1, 3, 200, 1}});
    CHECK(seconds(machine.network, two) == 10);
  }
  SECTION("three do: x0, x1, x2 <= 20, x0 + x1 + x2 <= 50: 200 / (50 / 3) = 12") {
    const RankTraffic three = traffic_of(4, {{0, 2, 200, 1}, {1, 3, 200, 1}, {1, 2, 200, 1}});
    CHECK(seconds(machine.network, three) == Approx(12));
  }
}

TEST_CASE("a capped flow leaves the rest of the link to the others", "[flow]") {
  // x0 <= 10 (cap), x0 + x1 <= 50: x1 = 40, 200 / 40 = 5; x0: 200 / 10 = 20
  FreePairs builder(3);
  const auto shared = builder.link(50, 50);
  builder.route(0, 1, {{shared, false}}, 10).route(0, 2, {{shared, false}});
  const FlowTimes result = times(builder.build(), traffic_of(3, {{0, 1, 200, 1}, {0, 2, 200, 1}}));
  CHECK(result.finish_s[0] == Approx(20));
  CHECK(result.finish_s[1] == Approx(5));
}

TEST_CASE("max-min is not equal division of each link", "[flow]") {
  // Three flows over links A and B: x0 + x1 <= 10 (A), x0 + x2 <= 100 (B), x2 <= 1000.
  // A is full first: x0 = x1 = 5; then B leaves x2 = 95.
  FreePairs builder(6);
  const auto a = builder.link(10, 10);
  const auto b = builder.link(100, 100);
  builder.route(0, 1, {{a, false}, {b, false}}).route(2, 3, {{a, false}}).route(4, 5, {{b, false}});
  const FlowTimes result =
      times(builder.build(), traffic_of(6, {{0, 1, 50, 1}, {2, 3, 50, 1}, {4, 5, 950, 1}}));
  CHECK(result.finish_s[0] == Approx(10));
  CHECK(result.finish_s[1] == Approx(10));
  CHECK(result.finish_s[2] == Approx(10));
}

TEST_CASE("a flow starts after messages x latency", "[flow]") {
  const TwoSwitches machine({50, 50, unlimited}, unlimited, 0.5);
  SECTION("one message: 0.5 + 200 / 50") {
    CHECK(seconds(machine.network, traffic_of(4, {{0, 2, 200, 1}})) == 4.5);
  }
  SECTION("three messages follow one another: 1.5 + 200 / 50") {
    CHECK(seconds(machine.network, traffic_of(4, {{0, 2, 200, 3}})) == 5.5);
  }
  SECTION("an early flow has the link alone until the late one starts") {
    // x0 = 50 from 0.5 to 2.5 (100 of 200 bytes), then 25 each; x0 has 100 left: until 6.5, x1 has
    // then had 100 of 300; alone 200 / 50 = 4 more: 10.5.
    const FlowTimes result =
        times(machine.network, traffic_of(4, {{0, 2, 200, 1}, {1, 3, 300, 5}}));
    CHECK(result.finish_s[0] == Approx(6.5));
    CHECK(result.finish_s[1] == Approx(10.5));
  }
  SECTION("M equal phases take exactly M times one phase") {
    const RankTraffic once = traffic_of(4, {{0, 2, 200, 1}, {1, 3, 200, 1}, {2, 3, 70, 1}});
    const RankTraffic thrice = traffic_of(4, {{0, 2, 600, 3}, {1, 3, 600, 3}, {2, 3, 210, 3}});
    CHECK(seconds(machine.network, thrice) == Approx(3 * seconds(machine.network, once)));
  }
  SECTION("messages without bytes cost their latency") {
    const FlowTimes result = times(machine.network, traffic_of(4, {{0, 2, 0, 4}}));
    CHECK(result.seconds == 2);
    CHECK(result.bottleneck == no_link);
  }
}

TEST_CASE("a gap between flows is idle", "[flow]") {
  // Flow 0 runs from 1 to 2; flow 1 starts at 10 and takes 1.
  NetworkBuilder builder(2);
  const auto link = builder.link(100, 100);
  builder.route(0, 1, {{link, false}}, unlimited, 1).route(1, 0, {{link, true}}, unlimited, 10);
  const FlowTimes result = times(builder.build(), traffic_of(2, {{0, 1, 100, 1}, {1, 0, 100, 1}}));
  CHECK(result.finish_s == std::vector<double>{2, 11});
}

TEST_CASE("a link that a route uses twice counts twice", "[flow]") {
  // 2 x0 <= 50 (combined): 100 / 25 = 4
  FreePairs builder(2);
  const auto link = builder.link(unlimited, unlimited, 50);
  builder.route(0, 1, {{link, false}, {link, true}});
  CHECK(seconds(builder.build(), traffic_of(2, {{0, 1, 100, 1}})) == 4);
}

TEST_CASE("nothing to limit, nothing to do", "[flow]") {
  const Network network = FreePairs(2).build();
  SECTION("no flow") {
    const FlowTimes result = times(network, traffic_of(2, {}));
    CHECK(result.seconds == 0);
    CHECK(result.last_flow == no_link);
  }
  SECTION("a flow without links or cap") {
    CHECK(seconds(network, traffic_of(2, {{0, 1, 1e9, 1}})) == 0);
  }
}

TEST_CASE("the assignment says which routes are used", "[flow]") {
  const TwoSwitches machine({10, 10, unlimited});
  const RankTraffic traffic = traffic_of(2, {{0, 1, 100, 1}});
  CHECK(flow_time(machine.network, traffic, {0, 1}) == 1);
  CHECK(flow_time(machine.network, traffic, {0, 2}) == 10);
  CHECK_THROWS_AS(flow_time(machine.network, traffic, {0, 4}), std::invalid_argument);
  CHECK_THROWS_AS(flow_time(machine.network, traffic, {0, 4}), std::invalid_argument);
  CHECK_THROWS_AS(flow_times(machine.network, traffic, {0}), std::invalid_argument);
}

TEST_CASE("giving up early never hides an answer that is good enough", "[flow]") {
  const TwoSwitches machine({50, 50, 70}, 30, 0.25);
  std::mt19937 random(7);
  std::vector<Flow> flows;
  for (std::uint32_t i = 0; i < 4; ++i) {
    for (std::uint32_t j = 0; j < 4; ++j) {
      if (i != j)
        flows.push_back({i, j, static_cast<double>(1 + random() % 500), 1.0 + i});
    }
  }
  const RankTraffic traffic = traffic_of(4, flows);
  FlowModel model(machine.network, traffic);
  const Assignment order = in_order(4);
  const double exact = model.seconds(order);
  for (const double limit : {0.0, 0.1, 0.5, 0.9, 0.999, 1.0, 1.001, 2.0}) {
    const double found = model.seconds(order, limit * exact);
    if (limit >= 1) {
      CHECK(found == exact);
    } else {
      CHECK(found > limit * exact);
      CHECK(found <= exact);
    }
  }
  SECTION("what is returned is a lower bound where one link says it all: 0.5 + 400 / 50") {
    const TwoSwitches narrow({50, 50, unlimited}, unlimited, 0.5);
    const RankTraffic two = traffic_of(4, {{0, 2, 200, 1}, {1, 3, 200, 1}});
    CHECK(FlowModel(narrow.network, two).seconds(order, 0) == Approx(8.5).epsilon(1e-9));
    CHECK(FlowModel(narrow.network, two).seconds(order) == 8.5);
  }
  // The model is reused: the last answer must not depend on the ones before.
  CHECK(FlowModel(machine.network, traffic).seconds(order) == exact);
}

TEST_CASE("time is at least the congestion of every link", "[flow]") {
  const TwoSwitches machine({40, 30, 50}, 25, 0.01);
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<Flow> flows;
    for (std::uint32_t i = 0; i < 4; ++i) {
      for (std::uint32_t j = 0; j < 4; ++j) {
        if (i != j && random() % 2) {
          flows.push_back(
              {i, j, static_cast<double>(random() % 1000), static_cast<double>(1 + random() % 5)});
        }
      }
    }
    const RankTraffic traffic = traffic_of(4, flows);
    const Assignment order = in_order(4);
    const double time = flow_time(machine.network, traffic, order);
    CHECK(time * (1 + 1e-9) >= congestion(machine.network, traffic, order).max_s);
  }
}

TEST_CASE("many flows: rates are renewed less often, which shortens nothing", "[flow]") {
  // Independent groups of 12 devices, each with traffic of its own: the exact answer is that of the
  // slowest group. 40 groups have 5280 flows, more than are walked event by event.
  constexpr std::uint32_t groups = 40;
  constexpr std::uint32_t members = 12;
  std::mt19937 random(7);
  FreePairs builder(groups * members);
  RankTraffic all{groups * members, {}};
  double exact = 0;
  for (std::uint32_t g = 0; g < groups; ++g) {
    NetworkBuilder alone(members);
    RankTraffic traffic{members, {}};
    for (std::uint32_t i = 0; i < members; ++i) {
      const double capacity = static_cast<double>(50 + random() % 50);
      builder.link(capacity, capacity);
      alone.link(capacity, capacity);
    }
    for (std::uint32_t i = 0; i < members; ++i) {
      for (std::uint32_t j = 0; j < members; ++j) {
        if (i == j)
          continue;
        const std::uint32_t first = g * members;
        const double latency = static_cast<double>(random() % 3);
        builder.route(first + i, first + j, {{first + i, false}, {first + j, true}}, 40, latency);
        alone.route(i, j, {{i, false}, {j, true}}, 40, latency);
        const double bytes = static_cast<double>(100 + random() % 900);
        all.flows.push_back({first + i, first + j, bytes, 1});
        traffic.flows.push_back({i, j, bytes, 1});
      }
    }
    exact = std::max(exact, seconds(alone.build(), traffic));
  }
  const Network network = builder.build();
  const FlowTimes result = times(network, all);
  CHECK(result.seconds >= exact * (1 - 1e-9));
  CHECK(result.seconds <= exact * 1.01);
  CHECK(result.seconds == *std::max_element(result.finish_s.begin(), result.finish_s.end()));
}

TEST_CASE("a phase ends whatever the sizes of its numbers", "[flow]") {
  // 5e-324 bytes at 1e5 a second take less than the least double: they are moved as they start.
  const double speed = GENERATE(1e-30, 1e-3, 1e5, 1e30);
  const double bytes = GENERATE(5e-324, 1e-308, 1e-30, 1.0, 1e29);
  const TwoSwitches machine({speed, speed, unlimited});
  const RankTraffic traffic =
      traffic_of(4, {{0, 2, bytes, 1}, {1, 3, 3 * bytes, 1}, {0, 3, 1e6, 1}, {1, 2, 1e-308, 1}});
  const FlowTimes result = times(machine.network, traffic);
  CHECK(result.seconds >= congestion(machine.network, traffic, in_order(4)).max_s * (1 - 1e-9));
  CHECK(result.seconds < unlimited);
  CHECK(*std::max_element(result.finish_s.begin(), result.finish_s.end()) == result.seconds);
}

TEST_CASE("a timing that somebody stops has no answer, and the next one is right again", "[flow]") {
  // All flows share one link of 100 and have different bytes: one finishes after the other.
  const std::uint32_t ranks = 300;
  FreePairs builder(ranks);
  const std::uint32_t shared = builder.link(100, 100);
  std::vector<Flow> flows;
  double bytes = 0;
  for (std::uint32_t i = 0; i + 1 < ranks; i += 2) {
    builder.route(i, i + 1, {{shared}});
    flows.push_back({i, i + 1, 100.0 * (i + 1), 1});
    bytes += 100.0 * (i + 1);
  }
  const Network network = builder.build();
  const RankTraffic traffic = traffic_of(ranks, flows);
  FlowModel model(network, traffic);
  StopFlag stop{true};
  model.stop_at(Deadline::in(3600, &stop));
  CHECK(model.seconds(in_order(ranks)) == unlimited);
  stop = false;
  CHECK(model.seconds(in_order(ranks)) == Approx(bytes / 100));
  model.stop_at(Deadline::in(0));
  CHECK(model.seconds(in_order(ranks)) == unlimited);
}

TEST_CASE("rounds of a rank follow one another: a floor of the time, which starts no flow later",
          "[flow]") {
  // Latency 1, far caps 50. Rank 0 waits for 2 + 2 + 1 of its messages; flows start at 2, 2 and 3.
  const TwoSwitches machine({100, 100, unlimited}, 50, 1);
  RankTraffic traffic = traffic_of(4, {{0, 1, 0, 2, 2}, {0, 2, 50, 2, 2}, {0, 3, 0, 3, 1}});
  SECTION("no rounds: the flow of 0 -> 2 ends last, at 2 + 50 / 50, and so does 0 -> 3") {
    for (Flow &flow : traffic.flows)
      flow.rounds = 0;
    const FlowTimes result = times(machine.network, traffic);
    CHECK(result.seconds == 3);
    CHECK(result.waiting_rank == no_rank);
    CHECK(result.start_s == std::vector<double>{2, 2, 3});
  }
  SECTION("5 > 3: the floor decides, and who waits is told") {
    const FlowTimes result = times(machine.network, traffic);
    CHECK(result.seconds == 5);
    CHECK(result.waiting_rank == 0);
    CHECK(result.finish_s == std::vector<double>{2, 3, 3});
    CHECK(seconds(machine.network, traffic) == 5);
  }
  SECTION("5 < 8: where flows take longer the floor plays no part") {
    traffic.flows[1].bytes = 300;
    const FlowTimes result = times(machine.network, traffic);
    CHECK(result.seconds == 8);
    CHECK(result.waiting_rank == no_rank);
  }
  SECTION("rounds of different ranks run at the same time") {
    traffic.flows.push_back({3, 0, 0, 4, 4});
    CHECK(seconds(machine.network, traffic) == 5);
  }
  SECTION("a search that gives up is told no more than the time") {
    FlowModel model(machine.network, traffic);
    const double given_up = model.seconds(in_order(4), 4);
    CHECK((given_up > 4 && given_up <= 5));
  }
  SECTION("a round on a pair with a curve takes what a message of the flow does") {
    Network network = machine.network;
    network.curves = {{{10, 4, 100}, {1000, 8, 100}}};
    network.curve_of_pair.assign(16, none_of_pair);
    network.curve_of_pair[2] = 0; // from 0 to 2, by messages of 50 / 2 bytes
    const double one = point_at(network.curves[0], 25).latency;
    CHECK(times(network, traffic).seconds == Approx(2 + 2 * one + 1));
  }
}
