// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <ctime>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>

#include "base/rng.hpp"
#include "catch.hpp"
#include "exact/cut_tree.hpp"
#include "exact/subset_dp.hpp"
#include "small_machines.hpp"
#include "toposeat/certificate/solve.hpp"
#include "toposeat/flow/flow.hpp"
#include "toposeat/problem/congestion.hpp"

using namespace toposeat;
using namespace toposeat::testing;

namespace {

struct PairRoute {
  std::vector<LinkUse> uses;
  double cap = unlimited;
  double latency = 1e-6;
};

Network network_of(std::uint32_t devices, std::vector<LinkCapacity> links,
                   const std::vector<PairRoute> &routes) {
  Network network;
  network.devices = devices;
  network.links = std::move(links);
  network.route_begin.push_back(0);
  for (const PairRoute &route : routes) {
    network.route_uses.insert(network.route_uses.end(), route.uses.begin(), route.uses.end());
    network.route_begin.push_back(static_cast<std::uint32_t>(network.route_uses.size()));
    network.cap.push_back(route.cap);
    network.latency.push_back(route.latency);
  }
  network.validate();
  return network;
}

/// Some pairs share a limit in both directions, some have a curve by message size.
void add_limits_and_curves(Network &network, Rng &rng) {
  const std::uint32_t n = network.devices;
  network.limit_of_pair.assign(network.cap.size(), none_of_pair);
  network.curve_of_pair.assign(network.cap.size(), none_of_pair);
  network.curves = {{{2, 0.01, 1}, {9, 0.03, 4}}};
  for (std::uint32_t a = 0; a < n; ++a) {
    for (std::uint32_t b = a + 1; b < n; ++b) {
      if (rng.below(3) == 0) {
        network.limit_of_pair[a * n + b] = network.limit_of_pair[b * n + a] =
            static_cast<std::int32_t>(network.pair_limits.size());
        network.pair_limits.push_back(1.0 + rng.below(3));
      }
      if (rng.below(3) == 0) {
        network.curve_of_pair[a * n + b] = 0;
        network.latency[a * n + b] = 0.01;
        network.cap[a * n + b] = std::min(4.0, network.cap[a * n + b]);
      }
    }
  }
  network.validate();
}

/// Every pair of devices has a link of its own kind or goes over one or two shared ones, or back
/// over the first of them.
Network random_mesh(std::uint32_t devices, Rng &rng) {
  std::vector<LinkCapacity> links;
  for (int i = 0; i < 10; ++i) {
    links.push_back({1.0 + rng.below(5), 1.0 + rng.below(5),
                     rng.below(2) == 0 ? unlimited : 1.0 + rng.below(6)});
  }
  std::vector<PairRoute> routes(std::size_t{devices} * devices);
  for (std::uint32_t a = 0; a < devices; ++a) {
    for (std::uint32_t b = 0; b < devices; ++b) {
      if (a == b)
        continue;
      PairRoute &route = routes[a * devices + b];
      const std::uint32_t first = rng.below(10);
      route.uses.push_back({first, rng.below(2) == 0});
      if (rng.below(2) == 0)
        route.uses.push_back({(first + 1 + rng.below(9)) % 10, rng.below(2) == 0});
      if (rng.below(4) == 0)
        route.uses.push_back({first, !route.uses.front().reverse});
      route.latency = 0.01 * rng.below(4);
      if (rng.below(3) == 0)
        route.cap = 0.5 + rng.below(3);
    }
  }
  Network network = network_of(devices, links, routes);
  add_limits_and_curves(network, rng);
  return network;
}

///        [6]              links 0..3 (4..) to the devices, two uplinks, one link between the
///        halves;
///      /     \            the uplinks have a capacity for both directions together
///   [4]       [5]
///   / \       / \         all with different capacities, so that no two subtrees are alike
///  d.. d     d.. d
Network random_tree(const std::vector<std::uint32_t> &sizes, Rng &rng) {
  const std::uint32_t devices = std::accumulate(sizes.begin(), sizes.end(), 0U);
  std::vector<std::uint32_t> block;
  for (std::uint32_t s = 0; s < sizes.size(); ++s)
    block.insert(block.end(), sizes[s], s);
  std::vector<LinkCapacity> links;
  for (std::uint32_t i = 0; i < devices + sizes.size(); ++i) {
    const bool half = rng.below(2) == 0;
    links.push_back({2.0 + rng.below(2), 2.0 + rng.below(2), half ? 3.0 : unlimited});
  }
  std::vector<PairRoute> routes(std::size_t{devices} * devices);
  for (std::uint32_t a = 0; a < devices; ++a) {
    for (std::uint32_t b = 0; b < devices; ++b) {
      if (a == b)
        continue;
      PairRoute &route = routes[a * devices + b];
      route.uses = {{a, false}};
      if (block[a] != block[b]) {
        route.uses.push_back({devices + block[a], false});
        route.uses.push_back({devices + block[b], true});
        route.latency = 2e-6;
      }
      route.uses.push_back({b, true});
    }
  }
  return network_of(devices, links, routes);
}

RankTraffic random_traffic(std::uint32_t ranks, Rng &rng, std::uint32_t sparsity) {
  RankTraffic traffic{ranks, {}};
  for (std::uint32_t i = 0; i < ranks; ++i) {
    for (std::uint32_t j = 0; j < ranks; ++j) {
      if (i != j && rng.below(sparsity) == 0)
        traffic.flows.push_back(
            {i, j, static_cast<double>(rng.below(20)), static_cast<double>(rng.below(3))});
    }
  }
  return traffic;
}

/// Some of the messages are rounds, many so that the floor decides.
RankTraffic random_rounds(std::uint32_t ranks, Rng &rng) {
  RankTraffic traffic = random_traffic(ranks, rng, 2);
  const std::uint32_t most = rng.below(2) == 0 ? 4 : 400;
  for (Flow &flow : traffic.flows) {
    flow.messages = rng.below(most);
    flow.rounds = rng.below(3) == 0 ? 0 : flow.messages;
  }
  traffic.validate();
  return traffic;
}

struct Optimum {
  double cost = unlimited;
  double max_s = unlimited;
  double mean_s = unlimited; // among those with the least maximum

  void take(double its_cost, const Congestion &loads) {
    if (loads.max_s < max_s * (1 - 1e-12)) {
      max_s = loads.max_s;
      mean_s = loads.mean_s;
    } else if (loads.max_s <= max_s * (1 + 1e-12)) {
      mean_s = std::min(mean_s, loads.mean_s);
    }
    cost = std::min(cost, its_cost);
  }
};

struct Optima {
  Optimum all;
  Optimum guarded; // among the placements that are not slower than the default
  double flow_s = unlimited;
};

/// Flow times cost most: without the default's there are none, and nothing is guarded.
Optima brute_force(const Network &network, const RankTraffic &traffic, const Matrix &cost,
                   std::optional<double> home_s) {
  Assignment devices(network.devices);
  std::iota(devices.begin(), devices.end(), 0U);
  const Qap qap = make_qap(traffic, cost);
  Optima best;
  do {
    const Assignment placement(devices.begin(), devices.begin() + traffic.ranks);
    const Congestion loads = congestion(network, traffic, placement);
    const double its_cost = qap_cost(qap, devices);
    best.all.take(its_cost, loads);
    if (!home_s)
      continue;
    const double flow_s = flow_time(network, traffic, placement);
    best.flow_s = std::min(best.flow_s, flow_s);
    if (flow_s <= *home_s * (1 + 1e-9))
      best.guarded.take(its_cost, loads);
  } while (std::next_permutation(devices.begin(), devices.end()));
  return best;
}

double home_time(const Network &network, const RankTraffic &traffic) {
  return flow_time(network, traffic, in_order(traffic.ranks));
}

Matrix random_cost(std::size_t size, Rng &rng) {
  Matrix cost(size);
  for (double &value : cost.values)
    value = 1 + rng.below(5);
  return cost;
}

MapAnswer solved(const Network &network, const RankTraffic &traffic, const Matrix &cost,
                 Objective objective, Method method = Method::automatic) {
  MapRequest request{network, traffic, cost, {}, {}, objective, method, 20, 1};
  return solve(request);
}

/// The guard may refuse the optimum of cost and congestion: then the best of what it admits is
/// answered. For time it cannot be in the way.
void check_against(const Network &network, const RankTraffic &traffic, Rng &rng) {
  const Matrix cost = random_cost(network.devices, rng);
  const double home_s = home_time(network, traffic);
  const Optima best = brute_force(network, traffic, cost, home_s);

  const MapAnswer time = solved(network, traffic, cost, Objective::time);
  CHECK(time.proved);
  CHECK(time.value == Approx(best.flow_s));
  CHECK(flow_time(network, traffic, time.device_of_rank) == Approx(time.value));

  for (const Objective objective : {Objective::cost, Objective::congestion}) {
    const double optimum = objective == Objective::cost ? best.all.cost : best.all.max_s;
    const MapAnswer answer = solved(network, traffic, cost, objective);
    CHECK(flow_time(network, traffic, answer.device_of_rank) <= home_s * (1 + 1e-9));
    REQUIRE(answer.lower_bound);
    if (answer.proved) {
      CHECK(answer.value == Approx(optimum));
    } else {
      CHECK(*answer.lower_bound == Approx(optimum));
    }
    const Optimum &guarded = best.guarded;
    CHECK(answer.value == Approx(objective == Objective::cost ? guarded.cost : guarded.max_s));
  }
}

} // namespace

TEST_CASE("every objective equals brute force on random meshes", "[map]") {
  Rng rng(101);
  for (int k = 0; k < 10; ++k) {
    const std::uint32_t devices = k % 2 == 0 ? 6 : 7;
    const Network network = random_mesh(devices, rng);
    const RankTraffic traffic = random_traffic(k % 3 == 0 ? devices - 1 : devices, rng, 2);
    check_against(network, traffic, rng);
  }
}

TEST_CASE("every objective equals brute force on random trees", "[map]") {
  Rng rng(202);
  for (const auto &sizes : std::vector<std::vector<std::uint32_t>>{
           {3, 3}, {2, 2, 2}, {1, 2, 4}, {6}, {2, 5}, {1, 1, 4}}) {
    const Network network = random_tree(sizes, rng);
    REQUIRE(link_tree(network));
    check_against(network, random_traffic(network.devices, rng, 2), rng);
  }
}

TEST_CASE("with rounds nothing false is proved, and no bound is above what brute force finds",
          "[map]") {
  Rng rng(808);
  for (int k = 0; k < 16; ++k) {
    const std::uint32_t devices = 4 + rng.below(3);
    Network network = random_mesh(devices, rng);
    if (k % 3 == 0) {
      network = random_tree({2, devices - 2}, rng);
      for (double &latency : network.latency)
        latency = 0.01 * rng.below(6);
    }
    CAPTURE(k, devices);
    const RankTraffic traffic = random_rounds(k % 2 == 0 ? devices : devices - 1, rng);
    check_against(network, traffic, rng);
    const double best_s = brute_force(network, traffic, Matrix(devices), unlimited).flow_s;
    for (const Method method : {Method::keep_default, Method::search}) {
      const MapAnswer answer = solved(network, traffic, Matrix(devices), Objective::time, method);
      REQUIRE(answer.lower_bound);
      CHECK(*answer.lower_bound <= best_s * (1 + 1e-9));
      if (answer.proved)
        CHECK(answer.value == Approx(best_s));
    }
  }
}

TEST_CASE("congestion on a tree: least maximum, then least mean", "[map]") {
  Rng rng(303);
  for (int k = 0; k < 6; ++k) {
    const Network network = random_tree({2, 2, 3}, rng);
    const RankTraffic traffic = random_traffic(7, rng, 2);
    const Optimum best = brute_force(network, traffic, random_cost(7, rng), {}).all;
    const auto tree = link_tree(network);
    REQUIRE(tree);
    const Qap qap = make_qap(traffic, Matrix(7));
    const auto least = min_max_on_tree(*tree, qap);
    REQUIRE(least);
    CHECK(least->value == Approx(best.max_s));
    const auto both = min_sum_on_tree(*tree, qap, unlimited, least->value * (1 + 1e-12));
    REQUIRE(both);
    const Congestion loads = congestion(network, traffic, both->placement);
    CHECK(loads.max_s == Approx(best.max_s));
    CHECK(loads.mean_s == Approx(best.mean_s));
  }
}

TEST_CASE("congestion on a mesh: least maximum of those that are not slower", "[map]") {
  Rng rng(404);
  for (int k = 0; k < 6; ++k) {
    const Network network = random_mesh(6, rng);
    const RankTraffic traffic = random_traffic(6, rng, 2);
    const Matrix cost = random_cost(6, rng);
    const double home_s = home_time(network, traffic);
    const Optimum best = brute_force(network, traffic, cost, home_s).guarded;
    const MapAnswer answer = solved(network, traffic, cost, Objective::congestion);
    const Congestion loads = congestion(network, traffic, answer.device_of_rank);
    CHECK(loads.max_s == Approx(best.max_s));
  }
}

TEST_CASE("links of a mesh that separate devices bound its congestion", "[map]") {
  Rng rng(505);
  for (int k = 0; k < 5; ++k) {
    const Network network = random_mesh(6, rng);
    const RankTraffic traffic = random_traffic(6, rng, 2);
    const Optima best = brute_force(network, traffic, random_cost(6, rng), unlimited);
    CHECK_FALSE(link_tree(network));
    const MapAnswer answer =
        solved(network, traffic, random_cost(6, rng), Objective::congestion, Method::search);
    REQUIRE(answer.lower_bound);
    CHECK(*answer.lower_bound <= best.all.max_s * (1 + 1e-9));
    CHECK(answer.value >= best.all.max_s * (1 - 1e-9));
    const MapAnswer time =
        solved(network, traffic, random_cost(6, rng), Objective::time, Method::search);
    REQUIRE(time.lower_bound);
    CHECK(*time.lower_bound <= best.flow_s * (1 + 1e-9));
  }
}

TEST_CASE("requests that contradict themselves are refused", "[map]") {
  Rng rng(1);
  const Network network = random_mesh(4, rng);
  const RankTraffic traffic = random_traffic(4, rng, 1);
  MapRequest request{network, traffic, Matrix(4), {}, {}};
  request.devices = {0, 1, 2};
  CHECK_THROWS_AS(solve(request), std::invalid_argument);
  request.devices = {0, 1, 2, 2};
  CHECK_THROWS_AS(solve(request), std::invalid_argument);
  request.devices.clear();
  request.pinned = {1, 1, no_pin, no_pin};
  CHECK_THROWS_AS(solve(request), std::invalid_argument);
}

TEST_CASE("the latencies of routes tighten the bound of the flow time, never too far", "[map]") {
  Rng rng(606);
  for (int k = 0; k < 8; ++k) {
    Network network = k % 2 == 0 ? random_tree({2, 2, 2}, rng) : random_mesh(6, rng);
    for (double &latency : network.latency)
      latency = static_cast<double>(rng.below(6));
    RankTraffic traffic = random_traffic(6, rng, 2);
    for (Flow &flow : traffic.flows)
      flow.messages += 1;
    const Optima best = brute_force(network, traffic, random_cost(network.devices, rng), unlimited);
    const MapAnswer bounded = solved(network, traffic, random_cost(network.devices, rng),
                                     Objective::time, Method::keep_default);
    REQUIRE(bounded.lower_bound);
    CHECK(*bounded.lower_bound <= best.flow_s * (1 + 1e-9));
  }
  // 0 and 1 are near, 2 and 3 are near; only far pairs have a latency. Three ranks that all talk
  // cannot all be near: 100 bytes and 2 messages need 2 x 7 + 100 / 50 = 16.
  TwoSwitches machine({50, 50, unlimited});
  for (std::uint32_t i = 0; i < 4; ++i) {
    for (std::uint32_t j = 0; j < 4; ++j)
      machine.network.latency[i * 4 + j] = i / 2 != j / 2 ? 7 : 0;
  }
  const RankTraffic three = traffic_of(4, {{0, 1, 100, 2}, {1, 2, 100, 2}, {2, 0, 100, 2}});
  const MapAnswer answer =
      solved(machine.network, three, random_cost(4, rng), Objective::time, Method::keep_default);
  CHECK(answer.lower_bound.value_or(0) == Approx(16));
  CHECK(answer.proved);
}

TEST_CASE("a job of which the budget times few placements does not keep a slow default", "[map]") {
  // Ten nodes of eight behind a slow link each; all pairs talk, groups of eight most of all.
  constexpr std::uint32_t devices = 80;
  NetworkBuilder builder(devices);
  std::vector<std::uint32_t> port;
  for (std::uint32_t d = 0; d < devices; ++d)
    port.push_back(builder.link(50, 50));
  for (std::uint32_t node = 0; node < devices / 8; ++node)
    port.push_back(builder.link(50, 50));
  for (std::uint32_t a = 0; a < devices; ++a) {
    for (std::uint32_t b = 0; b < devices; ++b) {
      if (a == b)
        continue;
      std::vector<LinkUse> uses{{port[a], false}, {port[b], true}};
      if (a / 8 != b / 8)
        uses.insert(uses.begin() + 1,
                    {{port[devices + a / 8], false}, {port[devices + b / 8], true}});
      builder.route(a, b, uses);
    }
  }
  const Network network = builder.build();
  Rng rng(11);
  const std::vector<std::uint32_t> group = rng.permutation(devices);
  std::vector<Flow> flows;
  Matrix cost(devices);
  for (std::uint32_t a = 0; a < devices; ++a) {
    for (std::uint32_t b = 0; b < devices; ++b) {
      if (a == b)
        continue;
      flows.push_back({a, b, (group[a] / 8 == group[b] / 8 ? 1e4 : 50.0) + rng.below(50), 1});
      cost(a, b) = a / 8 == b / 8 ? 1 : 10;
    }
  }
  const RankTraffic traffic = traffic_of(devices, flows);
  Assignment home(devices);
  std::iota(home.begin(), home.end(), 0U);
  // The budget is wall time. One of which a busy machine let us compute for little proves nothing.
  MapAnswer answer;
  double computed_s = 0;
  double budget_s = 1;
  do {
    const std::clock_t begin = std::clock();
    answer =
        solve({network, traffic, cost, {}, {}, Objective::time, Method::automatic, budget_s, 1});
    computed_s = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    budget_s *= 2;
  } while (answer.kept_default && computed_s < 0.8 && budget_s <= 64);
  CHECK_FALSE(answer.kept_default);
  CHECK(answer.value < 0.5 * flow_time(network, traffic, home));
  CHECK(
      std::set<std::uint32_t>(answer.device_of_rank.begin(), answer.device_of_rank.end()).size() ==
      devices);
}
