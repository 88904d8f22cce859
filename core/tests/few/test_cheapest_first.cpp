// Placements on few devices in order of their cost, against all of them.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "few/cheapest_first.hpp"
#include "network_builder.hpp"
#include "toposeat/base/rng.hpp"
#include "toposeat/flow/flow.hpp"

using namespace toposeat;
using namespace toposeat::testing;

namespace {

/// Ports of their own kind for each device, or of one kind for the first and for the last half, and
/// a link between the halves.
Network two_halves(std::uint32_t devices, bool alike, Rng &rng) {
  NetworkBuilder builder(devices);
  for (std::uint32_t d = 0; d < devices; ++d)
    builder.link(alike ? 4 : 3.0 + rng.below(4), 5);
  const std::uint32_t up = builder.link(6, 6);
  for (std::uint32_t a = 0; a < devices; ++a) {
    for (std::uint32_t b = 0; b < devices; ++b) {
      if (a == b)
        continue;
      const bool far = 2 * a / devices != 2 * b / devices;
      std::vector<LinkUse> uses{{a, false}, {b, true}};
      if (far)
        uses.push_back({up, a > b});
      builder.route(a, b, uses, far ? 3 : unlimited, far ? 0.2 : 0.1);
    }
  }
  return builder.build();
}

Matrix costs_of(std::uint32_t devices, bool alike, Rng &rng) {
  Matrix cost(devices);
  for (std::uint32_t a = 0; a < devices; ++a) {
    for (std::uint32_t b = 0; b < devices; ++b) {
      if (a != b)
        cost(a, b) = alike ? (2 * a / devices != 2 * b / devices ? 7 : 2) : 1.0 + rng.below(9);
    }
  }
  return cost;
}

/// Of ranks that talk to each other in twos, all alike, or of random ones.
RankTraffic traffic_for(std::uint32_t ranks, bool twins, Rng &rng) {
  std::vector<Flow> flows;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    for (std::uint32_t s = 0; s < ranks; ++s) {
      if (twins ? r != s && r / 2 == s / 2 : r != s && rng.below(4) != 0)
        flows.push_back({r, s, twins ? 6 : 1.0 + rng.below(20), twins ? 1 : 1.0 + rng.below(3)});
    }
  }
  return traffic_of(ranks, flows);
}

/// A problem of each kind, with all that a `CheapestFirst` is made of.
struct Problem {
  Problem(std::uint32_t devices, std::uint32_t ranks, bool alike, bool twins, Rng &rng)
      : network(two_halves(devices, alike, rng)), traffic(traffic_for(ranks, twins, rng)),
        qap(make_qap(traffic, costs_of(devices, alike, rng))), lone(network, traffic),
        loads{network, traffic, qap.pinned, floors} {}

  [[nodiscard]] double cost(const Assignment &all) const { return qap_cost(qap, all); }
  [[nodiscard]] double seconds(const Assignment &all) const {
    return flow_time(network, traffic, talking(all));
  }
  [[nodiscard]] Assignment talking(const Assignment &all) const {
    return {all.begin(), all.begin() + traffic.ranks};
  }

  Network network;
  RankTraffic traffic;
  Qap qap;
  LoneFlows lone;
  Floors floors;
  LoadProblem loads;
};

std::vector<Assignment> every_placement(const Problem &problem) {
  std::vector<Assignment> every;
  Assignment all = in_order(problem.network.devices);
  do {
    every.push_back(all);
  } while (std::next_permutation(all.begin(), all.end()));
  return every;
}

std::vector<Assignment> listed(CheapestFirst &order, TimeLimit &limit) {
  std::vector<Assignment> placements;
  while (auto next = order.next(limit))
    placements.push_back(*next);
  return placements;
}

bool rises(const Problem &problem, const std::vector<Assignment> &placements) {
  return std::is_sorted(placements.begin(), placements.end(), [&](auto &one, auto &other) {
    return problem.cost(one) < problem.cost(other) * (1 - 1e-9);
  });
}

/// Cost and time, rounded.
using Kinds = std::set<std::pair<long long, long long>>;

template <class Which>
Kinds kinds_of(const Problem &problem, const std::vector<Assignment> &placements, Which which) {
  Kinds kinds;
  for (const Assignment &all : placements) {
    if (which(all))
      kinds.emplace(std::llround(1e6 * problem.cost(all)),
                    std::llround(1e8 * problem.seconds(all)));
  }
  return kinds;
}

} // namespace

TEST_CASE("what a proof left open follows in order of cost, and all of it", "[cheapest]") {
  Rng rng(401);
  std::size_t proofs = 0;
  for (int kind = 0; kind < 24; ++kind) {
    const auto devices = static_cast<std::uint32_t>(3 + kind % 4);
    const std::uint32_t ranks = devices - (kind % 3 == 0 ? 1 : 0);
    const Problem problem(devices, ranks, false, false, rng);
    const Assignment start = in_order(devices);
    const double below = kind % 5 == 0 ? 1e9 : problem.cost(start);
    SmallProof proof = prove_small_qap(problem.qap, problem.loads, start, below);
    CAPTURE(kind);
    if (proof.others == nullptr)
      continue; // costs of a symmetric machine, by chance
    ++proofs;
    TimeLimit none(problem.lone, unlimited);
    const std::vector<Assignment> placements = listed(*proof.others, none);
    CHECK(rises(problem, placements));
    const auto cheap = [&](const Assignment &all) {
      return problem.cost(all) < below * (1 - 1e-9);
    };
    CHECK(kinds_of(problem, placements, cheap) ==
          kinds_of(problem, every_placement(problem), cheap));
    if (!placements.empty())
      CHECK(problem.cost(placements.front()) == Approx(proof.best.value));
  }
  CHECK(proofs > 18);
}

TEST_CASE("what exceeds a time limit is left out, and nothing else", "[cheapest]") {
  Rng rng(402);
  std::size_t spared = 0;
  std::size_t within = 0;
  for (int kind = 0; kind < 16; ++kind) {
    const Problem problem(6, 6, kind % 4 == 3, false, rng);
    TimeLimit limit(problem.lone, problem.seconds(rng.permutation(6)) * (1 - 0.2 * (kind % 3)));
    const auto possible = [&](const Assignment &all) { return !limit.exceeded(all); };
    const std::vector<Assignment> every = every_placement(problem);
    SmallProof proof = prove_small_qap(problem.qap, problem.loads, in_order(6), 1e9);
    CheapestFirst all = cheapest_first(problem.qap, problem.loads, rng.permutation(6), 1e9);
    const std::vector<Assignment> placements = listed(proof.others ? *proof.others : all, limit);
    CHECK(rises(problem, placements));
    CHECK(std::all_of(placements.begin(), placements.end(), possible));
    CHECK(kinds_of(problem, placements, possible) == kinds_of(problem, every, possible));
    const auto left = std::count_if(every.begin(), every.end(), possible);
    within += static_cast<std::size_t>(left);
    spared += every.size() - static_cast<std::size_t>(left);
  }
  CHECK(within > 500);
  CHECK(spared > 500);
}

TEST_CASE("of placements that symmetries make of each other one is listed", "[cheapest]") {
  Rng rng(403);
  for (int kind = 0; kind < 16; ++kind) {
    const bool alike = kind % 2 == 0;
    const bool twins = kind % 3 != 0;
    const Problem problem(6, kind % 4 == 3 ? 5 : 6, alike, twins, rng);
    TimeLimit none(problem.lone, unlimited);
    const Assignment start = rng.permutation(6);
    SmallProof proof = prove_small_qap(problem.qap, problem.loads, start, 1e9);
    CHECK((proof.others == nullptr) == alike);
    CheapestFirst all = cheapest_first(problem.qap, problem.loads, start, 1e9);
    const std::vector<Assignment> placements = listed(proof.others ? *proof.others : all, none);
    CAPTURE(kind);
    CHECK(rises(problem, placements));
    CHECK((alike || twins ? placements.size() < 500 : placements.size() == 720));
    const auto any = [](const Assignment & /*all*/) { return true; };
    CHECK(kinds_of(problem, placements, any) == kinds_of(problem, every_placement(problem), any));
  }
}
