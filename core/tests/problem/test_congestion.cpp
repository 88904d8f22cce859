// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/problem/congestion.hpp"

#include <cmath>
#include <random>
#include <stdexcept>

#include "catch.hpp"
#include "small_machines.hpp"

using namespace toposeat;
using namespace toposeat::testing;

TEST_CASE("congestion of a link is its slowest direction or both together", "[congestion]") {
  CHECK(congestion_of({10, 20, unlimited}, {30, 40}) == 3); // 30 / 10 > 40 / 20
  CHECK(congestion_of({10, 20, 7}, {30, 40}) == 10);        // (30 + 40) / 7
  CHECK(congestion_of({unlimited, unlimited, 7}, {7, 0}) == 1);
  CHECK(congestion_of({10, 10, 10}, {0, 0}) == 0);
}

TEST_CASE("congestion of a small machine, by hand", "[congestion]") {
  // 0 -> 2: ports 0 and 2 and the uplink; 3 -> 1: ports 3, 1 and the uplink backwards;
  // 0 -> 1: ports 0 and 1 only.
  const TwoSwitches machine({50, 25, 60});
  const RankTraffic traffic = traffic_of(4, {{0, 2, 300, 1}, {3, 1, 100, 1}, {0, 1, 100, 1}});
  const Congestion result = congestion(machine.network, traffic, in_order(4));
  CHECK(result.bytes[machine.uplink].forward == 300);
  CHECK(result.bytes[machine.uplink].backward == 100);
  CHECK(result.bytes[0].forward == 400);
  CHECK(result.bytes[1].backward == 200);
  const std::vector<double> expected = {4, 2, 3, 1, 400.0 / 60};
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(result.seconds[i] == Approx(expected[i]));
  CHECK(result.max_s == Approx(400.0 / 60));
  CHECK(result.mean_s == Approx((10 + 400.0 / 60) / 5));
  CHECK(result.hop_bytes == 300 * 3 + 100 * 3 + 100 * 2);
}

TEST_CASE("the mean leaves out links that no route uses, not idle ones", "[congestion]") {
  NetworkBuilder builder(2);
  const auto used = builder.link(10, 10);
  builder.link(10, 10);
  builder.route(0, 1, {{used, false}}).route(1, 0, {{used, true}});
  const Network network = builder.build();
  CHECK(used_links(network) == std::vector<bool>{true, false});
  CHECK(congestion(network, traffic_of(2, {{0, 1, 20, 1}}), {0, 1}).mean_s == 2);
  CHECK(congestion(network, traffic_of(1, {}), {0}).mean_s == 0);
}

TEST_CASE("link loads stay equal to congestion from scratch", "[congestion]") {
  // 3 ranks on 4 devices, so that exchanges also meet an empty device.
  const TwoSwitches machine({50, 25, 60});
  const RankTraffic traffic = traffic_of(
      3, {{0, 1, 300, 1}, {1, 0, 20, 1}, {1, 2, 500, 1}, {2, 0, 77, 1}, {0, 2, 1000, 2}});
  LinkLoads loads(machine.network, traffic, in_order(3));
  std::mt19937 random(11);
  std::vector<Assignment> history = {loads.device_of_rank()};
  const auto powers = [&](const Assignment &placement) {
    const Congestion fresh = congestion(machine.network, traffic, placement);
    double sum = 0;
    for (std::size_t l = 0; l < fresh.bytes.size(); ++l) {
      const LinkCapacity &link = machine.network.links[l];
      const auto [forward, backward] = fresh.bytes[l];
      for (const double seconds :
           {forward / link.forward, backward / link.backward, (forward + backward) / link.combined})
        sum += std::pow(seconds, 6);
    }
    return sum;
  };
  const auto check = [&] {
    const Congestion fresh = congestion(machine.network, traffic, loads.device_of_rank());
    CHECK(loads.max_s() == Approx(fresh.max_s).epsilon(1e-12));
    CHECK(loads.mean_s() == Approx(fresh.mean_s).epsilon(1e-12));
    CHECK(loads.power_sum() == Approx(powers(loads.device_of_rank())).epsilon(1e-12));
  };
  for (int step = 0; step < 2000; ++step) {
    if (random() % 8 < 3 && history.size() > 1) {
      loads.undo();
      CHECK(loads.device_of_rank() == history.front());
      CHECK_THROWS_AS(loads.undo(), std::logic_error);
      history.pop_back();
    } else {
      history = {loads.device_of_rank()};
      const double rise = loads.weigh(random() % 4, random() % 4);
      CHECK(loads.device_of_rank() == history.front());
      if (random() % 4 == 0) // left at that
        continue;
      loads.make();
      CHECK_THROWS_AS(loads.make(), std::logic_error);
      history.push_back(loads.device_of_rank());
      const double before = powers(history.front());
      CHECK(before + rise == Approx(powers(history.back())).epsilon(1e-9));
    }
    check();
  }
}

TEST_CASE("link loads: exchange, move and who sits where", "[congestion]") {
  const TwoSwitches machine({50, 25, 60});
  const RankTraffic traffic = traffic_of(3, {{0, 1, 300, 1}});
  LinkLoads loads(machine.network, traffic, in_order(3));
  loads.move(0, 3); // to the empty device, behind the uplink
  CHECK(loads.device_of_rank() == Assignment{3, 1, 2});
  CHECK(loads.rank_on(0) == LinkLoads::nobody);
  CHECK(loads.rank_on(3) == 0);
  CHECK(loads.max_s() == Approx(300.0 / 25));
  loads.weigh(1, 2);
  loads.make();
  CHECK(loads.device_of_rank() == Assignment{3, 2, 1});
  CHECK(loads.max_s() < 300.0 / 25);
  loads.undo();
  CHECK(loads.device_of_rank() == Assignment{3, 1, 2});
  CHECK(loads.max_s() == Approx(300.0 / 25));
  CHECK(loads.rank_on(3) == 0);
  CHECK_THROWS_AS(loads.undo(), std::logic_error);
  CHECK_THROWS_AS(loads.weigh(0, 4), std::invalid_argument);
}
