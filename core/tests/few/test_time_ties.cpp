// What comes after the time where several placements are equally fast.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "network_builder.hpp"
#include "toposeat/base/rng.hpp"
#include "toposeat/flow/flow.hpp"
#include "toposeat/problem/congestion.hpp"
#include "toposeat/solve/finalists.hpp"
#include "toposeat/solve/solve.hpp"

using namespace toposeat;
using namespace toposeat::testing;

namespace {

/// A ring of links, the same both ways, with routes the shorter way round.
Network ring(std::uint32_t devices, Rng &random) {
  NetworkBuilder builder(devices);
  for (std::uint32_t i = 0; i < devices; ++i) {
    const double capacity = 10.0 * (1 + random.below(2));
    builder.link(capacity, capacity, unlimited);
  }
  for (std::uint32_t i = 0; i < devices; ++i) {
    for (std::uint32_t j = 0; j < devices; ++j) {
      std::vector<LinkUse> uses;
      const std::uint32_t ahead = (j + devices - i) % devices;
      for (std::uint32_t k = 0; 2 * ahead <= devices && k < ahead; ++k)
        uses.push_back({(i + k) % devices, false});
      for (std::uint32_t k = devices; 2 * ahead > devices && k > ahead; --k)
        uses.push_back({(i + devices - 1 - (devices - k)) % devices, true});
      if (i != j)
        builder.route(i, j, uses, unlimited, 0.5);
    }
  }
  return builder.build();
}

RankTraffic few_flows(std::uint32_t ranks, Rng &random) {
  RankTraffic traffic;
  traffic.ranks = ranks;
  for (std::uint32_t i = 0; i < ranks; ++i) {
    for (std::uint32_t j = 0; j < ranks; ++j) {
      if (i != j && random.below(3) == 0)
        traffic.flows.push_back({i, j, 20.0 * (1 + random.below(3)), 1});
    }
  }
  return traffic;
}

Score score_of(const Network &network, const RankTraffic &traffic, const Assignment &placement) {
  const Congestion loads = congestion(network, traffic, placement);
  std::uint32_t moved = 0;
  for (std::uint32_t r = 0; r < placement.size(); ++r)
    moved += placement[r] != r ? 1U : 0U;
  return {flow_time(network, traffic, placement), loads.max_s, loads.mean_s, moved};
}

} // namespace

TEST_CASE("no exchange of two ranks is as fast and congests links less", "[time]") {
  constexpr std::uint32_t ranks = 5;
  Rng random(3);
  int gains = 0;
  for (int round = 0; round < 60; ++round) {
    const Network network = ring(ranks, random);
    const RankTraffic traffic = few_flows(ranks, random);
    Matrix cost(ranks);
    std::fill(cost.values.begin(), cost.values.end(), 1.0);
    const MapAnswer answer = solve({.network = network, .traffic = traffic, .cost = cost});
    CHECK(answer.proved);
    if (answer.kept_default)
      continue;
    ++gains;
    const Score found = score_of(network, traffic, answer.device_of_rank);
    for (std::uint32_t r = 0; r < ranks; ++r) {
      for (std::uint32_t s = 0; s < r; ++s) {
        Assignment other = answer.device_of_rank;
        std::swap(other[r], other[s]);
        CHECK_FALSE(score_of(network, traffic, other).better_than(found));
      }
    }
  }
  CHECK(gains > 20);
}
