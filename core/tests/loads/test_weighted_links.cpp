// The congestion bounds that hold for every placement, against brute force.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <numeric>

#include "catch.hpp"
#include "loads/partial_mean.hpp"
#include "network_builder.hpp"
#include "toposeat/base/rng.hpp"
#include "toposeat/flow/flow.hpp"
#include "toposeat/loads/floors.hpp"
#include "toposeat/loads/load_branching.hpp"
#include "toposeat/loads/weighted_links.hpp"
#include "toposeat/problem/congestion.hpp"

using namespace toposeat;
using namespace toposeat::testing;

namespace {

/// A ring of links walked forwards, with shortcuts: no link separates devices from the others.
///
///   0 -- 1 -- 2 -- ... -- 0      and a link of its own between some pairs
Network ring_with_shortcuts(std::uint32_t devices, Rng &rng) {
  NetworkBuilder builder(devices);
  for (std::uint32_t d = 0; d < devices; ++d) {
    const bool half_duplex = rng.below(3) == 0;
    builder.link(2.0 + rng.below(3), 2.0 + rng.below(3), half_duplex ? 3 : unlimited);
  }
  for (std::uint32_t a = 0; a < devices; ++a) {
    for (std::uint32_t b = 0; b < devices; ++b) {
      if (a == b)
        continue;
      std::vector<LinkUse> uses;
      if (rng.below(4) == 0) {
        uses.push_back({builder.link(1.0 + rng.below(4), 1.0 + rng.below(4)), rng.below(2) == 0});
      } else {
        const bool clockwise = (b + devices - a) % devices <= devices / 2;
        for (std::uint32_t at = a; at != b; at = (at + (clockwise ? 1 : devices - 1)) % devices)
          uses.push_back({clockwise ? at : (at + devices - 1) % devices, !clockwise});
      }
      builder.route(a, b, uses);
    }
  }
  return builder.build();
}

RankTraffic random_traffic(std::uint32_t ranks, Rng &rng) {
  std::vector<Flow> flows;
  for (std::uint32_t i = 0; i < ranks; ++i) {
    for (std::uint32_t j = 0; j < ranks; ++j) {
      if (i != j && rng.below(2) == 0)
        flows.push_back({i, j, static_cast<double>(rng.below(20)), 1});
    }
  }
  return traffic_of(ranks, flows);
}

double least_congestion(const Network &network, const RankTraffic &traffic,
                        const std::vector<std::uint32_t> &pinned) {
  Assignment all = in_order(network.devices);
  double best = unlimited;
  do {
    bool kept = true;
    for (std::uint32_t r = 0; r < traffic.ranks; ++r)
      kept = kept && (pinned[r] == Qap::no_pin || pinned[r] == all[r]);
    if (kept)
      best = std::min(
          best, congestion(network, traffic, {all.begin(), all.begin() + traffic.ranks}).max_s);
  } while (std::next_permutation(all.begin(), all.end()));
  return best;
}

} // namespace

TEST_CASE("congestion bounds never exceed the least maximum", "[map]") {
  Rng rng(91);
  for (int k = 0; k < 16; ++k) {
    const Network network = ring_with_shortcuts(6, rng);
    const RankTraffic traffic = random_traffic(k % 3 == 0 ? 5 : 6, rng);
    Qap qap = make_qap(traffic, Matrix(6));
    if (k % 4 == 3)
      qap.pinned[2] = 4;
    const double best = least_congestion(network, traffic, qap.pinned);
    CHECK(floors(network, traffic, qap.pinned).congestion_s <= best * (1 + 1e-9));
    const double free_bound = weighted_links_bound(network, qap, unlimited, Deadline::in(60));
    CHECK(free_bound <= best * (1 + 1e-9));
    // With the optimum known, what is worse is struck out: the bound may only reach it.
    const double bound = weighted_links_bound(network, qap, best, Deadline::in(60));
    CHECK(bound <= best);
    CHECK(bound > 0);
  }
}

TEST_CASE("the weighted bound is the mean load where no placement differs", "[map]") {
  // A ring of 6 equal links; everybody sends everybody 1: each direction of a link carries
  // 1 + 2 + 3 / 2 = 4.5 pairs on average (the pairs at distance 3 all go clockwise: 6 and 3).
  NetworkBuilder builder(6);
  for (int i = 0; i < 6; ++i)
    builder.link(1, 1);
  for (std::uint32_t a = 0; a < 6; ++a) {
    for (std::uint32_t b = 0; b < 6; ++b) {
      std::vector<LinkUse> uses;
      const bool clockwise = (b + 6 - a) % 6 <= 3;
      for (std::uint32_t at = a; at != b; at = (at + (clockwise ? 1 : 5)) % 6)
        uses.push_back({clockwise ? at : (at + 5) % 6, !clockwise});
      if (a != b)
        builder.route(a, b, uses);
    }
  }
  std::vector<Flow> flows;
  for (std::uint32_t i = 0; i < 6; ++i) {
    for (std::uint32_t j = 0; j < 6; ++j) {
      if (i != j)
        flows.push_back({i, j, 1, 1});
    }
  }
  const Qap qap = make_qap(traffic_of(6, flows), Matrix(6));
  CHECK(weighted_links_bound(builder.build(), qap, 6, Deadline::in(60)) == Approx(4.5));
}

TEST_CASE("branching on congestion and time keeps allowed devices and finds the best", "[map]") {
  Rng rng(92);
  for (int k = 0; k < 10; ++k) {
    const Network network = ring_with_shortcuts(6, rng);
    const RankTraffic traffic = random_traffic(6, rng);
    const std::vector<std::uint32_t> pinned(6, Qap::no_pin);
    DeviceSets allowed(6, 6);
    for (std::size_t r = 0; r < 6 && k % 2 == 0; ++r) {
      for (std::size_t d = 0; d < 6; ++d) {
        if (r != d && rng.below(3) == 0)
          allowed.forbid(r, d);
      }
    }
    const Floors lower = floors(network, traffic, pinned);
    const LoadProblem problem{network, traffic, pinned, lower, allowed};
    double least_max = unlimited;
    double least_sum = unlimited;
    double least_time = unlimited;
    Assignment all = in_order(6);
    do {
      bool kept = true;
      for (std::size_t r = 0; r < 6; ++r)
        kept = kept && allowed.contains(r, all[r]);
      if (!kept)
        continue;
      const Congestion loads = congestion(network, traffic, all);
      if (loads.max_s < least_max * (1 - 1e-9)) {
        least_max = loads.max_s;
        least_sum = loads.mean_s;
      } else if (loads.max_s <= least_max * (1 + 1e-9)) {
        least_sum = std::min(least_sum, loads.mean_s);
      }
      least_time = std::min(least_time, flow_time(network, traffic, all));
    } while (std::next_permutation(all.begin(), all.end()));

    const BoundedAnswer least = branch_on_congestion(problem, in_order(6), 0, Deadline::in(60));
    CHECK(least.proved);
    CHECK(least.value == Approx(least_max));
    CHECK(congestion(network, traffic, least.placement).mean_s == Approx(least_sum));
    const BoundedAnswer fastest = branch_on_time(problem, in_order(6), 0, Deadline::in(60));
    CHECK(fastest.proved);
    CHECK(fastest.value == Approx(least_time));
    for (std::size_t r = 0; r < 6; ++r) {
      CHECK(allowed.contains(r, least.placement[r]));
      CHECK(allowed.contains(r, fastest.placement[r]));
    }
  }
}

TEST_CASE("a partial mean never exceeds what any completion has", "[map]") {
  Rng rng(93);
  for (int k = 0; k < 6; ++k) {
    const Network network = ring_with_shortcuts(6, rng);
    const RankTraffic traffic = random_traffic(6, rng);
    const std::vector<std::uint32_t> order = rng.permutation(6);
    Qap qap = make_qap(traffic, Matrix(6));
    for (const LinkMean &mean : link_means(network)) {
      qap.distance = mean;
      const Assignment whole = rng.permutation(6);
      PartialMean partial(mean, traffic, order);
      for (const std::uint32_t rank : order) {
        CHECK(partial.bound_with(whole[rank]) <= qap_cost(qap, whole) * (1 + 1e-9));
        partial.place(whole[rank]);
        if (rank != order.back()) {
          partial.take_back();
          partial.place(whole[rank]);
        }
      }
    }
  }
}
