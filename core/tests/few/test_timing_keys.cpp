// What the enumerations on few devices know of a placement's time before they time it, against the
// flow model itself.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "few/lone_flows.hpp"
#include "few/time_limit.hpp"
#include "few/timing_keys.hpp"
#include "network_builder.hpp"
#include "toposeat/base/rng.hpp"
#include "toposeat/flow/flow.hpp"

using namespace toposeat;
using namespace toposeat::testing;

namespace {

constexpr std::uint32_t devices = 5;

/// Two pairs of devices on a switch each and one on a third, between which lie unequal links; every
/// third machine sends some pairs twice over one port.
Network three_switches(Rng &rng) {
  NetworkBuilder builder(devices);
  for (std::uint32_t d = 0; d < devices; ++d)
    builder.link(4, 4, rng.below(2) == 0 ? 6 : unlimited);
  std::array<std::uint32_t, 3> ups{};
  for (std::uint32_t &up : ups)
    up = builder.link(3.0 + rng.below(3), 5);
  const bool twice = rng.below(3) == 0;
  for (std::uint32_t a = 0; a < devices; ++a) {
    for (std::uint32_t b = 0; b < devices; ++b) {
      if (a == b)
        continue;
      std::vector<LinkUse> uses{{a, false}, {b, true}};
      if (a / 2 != b / 2) {
        uses.push_back({ups[a / 2], false});
        uses.push_back({ups[b / 2], true});
      }
      if (twice && a + b == 5)
        uses.push_back({a, false});
      builder.route(a, b, uses, a / 2 != b / 2 ? 3.5 : unlimited, a / 2 != b / 2 ? 0.05 : 0.02);
    }
  }
  return builder.build();
}

RankTraffic random_traffic(std::uint32_t ranks, Rng &rng) {
  std::vector<Flow> flows;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    for (std::uint32_t s = 0; s < ranks; ++s) {
      if (r != s && rng.below(3) != 0)
        flows.push_back({r, s, static_cast<double>(rng.below(4)), 1.0 + rng.below(3)});
    }
  }
  return traffic_of(ranks, flows);
}

template <class Visit> void for_each_placement(Visit visit) {
  Assignment placement = in_order(devices);
  do {
    visit(placement);
  } while (std::next_permutation(placement.begin(), placement.end()));
}

} // namespace

TEST_CASE("placements with the same key take the same time, mirror images among them", "[keys]") {
  Rng rng(301);
  std::size_t classes = 0;
  for (int kind = 0; kind < 20; ++kind) {
    const Network network = three_switches(rng);
    const RankTraffic traffic = random_traffic(devices, rng);
    const LoneFlows flows(network, traffic);
    TimingKeys keys(flows);
    std::map<std::pair<std::uint64_t, std::uint64_t>, double> times;
    for_each_placement([&](const Assignment &placement) {
      const TimingKey key = keys.of(placement);
      const double seconds = flow_time(network, traffic, placement);
      const auto [known, is_new] = times.try_emplace({key.first, key.second}, seconds);
      CHECK(known->second == Approx(seconds).epsilon(1e-12));
    });
    classes += times.size();
  }
  CHECK(classes < 20 * 120);
  CHECK(classes > 20);
}

TEST_CASE("devices that a symmetry exchanges make no new key", "[keys]") {
  const TwoSwitches machine({50, 50});
  Rng rng(302);
  for (int kind = 0; kind < 10; ++kind) {
    const RankTraffic traffic = random_traffic(4, rng);
    const LoneFlows flows(machine.network, traffic);
    TimingKeys keys(flows);
    const Assignment placement = rng.permutation(4);
    for (const Assignment &image : {Assignment{1, 0, 2, 3}, Assignment{2, 3, 0, 1}}) {
      Assignment other = placement;
      for (std::uint32_t &device : other)
        device = image[device];
      CHECK(keys.of(other) == keys.of(placement));
    }
  }
}

TEST_CASE("what exceeds a limit takes longer, and pairs ruled out are slow alone", "[keys]") {
  Rng rng(303);
  std::size_t exceeded = 0;
  std::size_t forbidden = 0;
  for (int kind = 0; kind < 20; ++kind) {
    const Network network = three_switches(rng);
    const RankTraffic traffic = random_traffic(devices, rng);
    const LoneFlows flows(network, traffic);
    const double limit_s = flow_time(network, traffic, rng.permutation(devices));
    TimeLimit limit(flows, 2 * limit_s);
    if (kind % 2 == 0)
      limit.tighten(limit_s / 3);
    for_each_placement([&](const Assignment &placement) {
      const double seconds = flow_time(network, traffic, placement);
      bool slow_pair = false;
      for (std::uint32_t r = 0; r < devices; ++r) {
        for (std::uint32_t s = 0; s < devices; ++s)
          slow_pair =
              slow_pair ||
              (r != s && (limit.devices_beside(r, placement[r], s) >> placement[s] & 1U) == 0);
      }
      const bool known = limit.exceeded(placement);
      CHECK((!slow_pair || known));
      CHECK((!known || seconds > limit.seconds() * (1 - 1e-12)));
      exceeded += known ? 1 : 0;
      forbidden += slow_pair ? 1 : 0;
    });
  }
  CHECK(exceeded > 100);
  CHECK(forbidden > 10);
}
