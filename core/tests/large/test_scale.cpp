// Mapping of large jobs: exact slot counts, deadlines, costs recomputed by brute force.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "catch.hpp"
#include "large_machines.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "division/multisection.hpp"
#include "large/slot_refinement.hpp"
#include "toposeat/large/map_large.hpp"

using namespace toposeat;
using namespace toposeat::testing;

namespace {

LargeRequest requested(RankTraffic traffic, LargeMachine machine, Method method, double budget_s) {
  return {std::move(machine),
          std::move(traffic),
          Objective::cost,
          method,
          budget_s,
          1,
          {},
          {},
          nullptr};
}

} // namespace

TEST_CASE("multisection seats every rank on a slot of its own, whatever the numbers") {
  for (const LargeMachine &machine : machines()) {
    const SlotTree tree = tree_of(machine);
    for (std::uint32_t ranks = 1; ranks <= slots_of(machine); ranks += 1 + ranks / 3) {
      const RankTraffic traffic = random_traffic(ranks, 3, ranks);
      const RankGraph graph = rank_graph(traffic, ranks);
      Assignment slots = multisection(graph, tree, 1, Effort::thorough, Deadline::in(60));
      REQUIRE(one_to_one(slots, slots_of(machine)));
      const double before = large_cost(graph, machine, slots);
      refine_slots(graph, machine, tree, slots, Deadline::in(60));
      REQUIRE(one_to_one(slots, slots_of(machine)));
      const double after = large_cost(graph, machine, slots);
      REQUIRE(after <= before * (1 + 1e-9));
      REQUIRE(after == Approx(directed_cost(traffic, machine, slots)));
    }
  }
}

TEST_CASE("a deadline in the past still seats every rank") {
  const LargeMachine machine = hierarchy({4, 8, 4});
  const RankTraffic traffic = random_traffic(100, 4, 1);
  const Assignment slots = multisection(rank_graph(traffic, 100), tree_of(machine), 1,
                                        Effort::thorough, Deadline::in(0));
  REQUIRE(one_to_one(slots, 128));
}

TEST_CASE("whenever the deadline comes, every rank has a slot of its own") {
  const LargeMachine machine = hierarchy({4, 8, 60});
  const SlotTree tree = tree_of(machine);
  for (const std::uint32_t ranks : {1920U, 1500U}) {
    const RankGraph graph = rank_graph(random_traffic(ranks, 6, ranks), ranks);
    for (double budget_s = 1e-5; budget_s < 0.3; budget_s *= 2) {
      const Deadline deadline = Deadline::in(budget_s);
      Assignment slots = multisection(graph, tree, 3, Effort::thorough, deadline);
      REQUIRE(one_to_one(slots, slots_of(machine)));
      const double before = large_cost(graph, machine, slots);
      refine_slots(graph, machine, tree, slots, Deadline::in(budget_s));
      REQUIRE(one_to_one(slots, slots_of(machine)));
      REQUIRE(large_cost(graph, machine, slots) <= before);
    }
  }
}

TEST_CASE("one who talks to all does not hold up the deadline's answer") {
  RankTraffic star;
  star.ranks = 3000;
  for (std::uint32_t r = 1; r < star.ranks; ++r)
    star.flows.push_back({0, r, 1.0 + r % 7, 1});
  const LargeMachine machine = hierarchy({4, 8, 100});
  const LargeAnswer answer = solve(requested(star, machine, Method::automatic, 0.05));
  REQUIRE(one_to_one(answer.device_of_rank, slots_of(machine)));
  REQUIRE(answer.placed().cost <= answer.home().cost);
}

TEST_CASE("a search that is told to stop returns the best so far") {
  const RankTraffic traffic = random_traffic(1024, 4, 9);
  const LargeMachine machine = hierarchy({4, 8, 32});
  for (const std::string stage : {"orders", "multilevel", "swaps", "never"}) {
    StopFlag stop = false;
    LargeRequest request = requested(traffic, machine, Method::automatic, 60);
    request.stop = &stop;
    request.progress = [&](const std::string &now, double) { stop = stop || now == stage; };
    const LargeAnswer answer = solve(request);
    REQUIRE(one_to_one(answer.device_of_rank, slots_of(machine)));
    REQUIRE(answer.interrupted == (stage != "never"));
    REQUIRE(answer.placed().cost <= answer.home().cost);
    if (stage == "swaps" || stage == "never") // the search was over by then
      REQUIRE(answer.placed().cost < 0.8 * answer.home().cost);
  }
}

TEST_CASE("ways to the same placement are one candidate") {
  RankTraffic ring;
  ring.ranks = 64;
  for (std::uint32_t r = 0; r < 64; ++r)
    ring.flows.push_back({r, (r + 1) % 64, 1, 1});
  const LargeMachine machine = torus({4, 4, 4}, 1, 1);
  const LargeAnswer answer = solve(requested(ring, machine, Method::automatic, 60));
  std::size_t names = 0;
  for (const LargeCandidate &each : answer.candidates)
    names += 1 + each.also.size();
  // The default is the first Cartesian order; six of these, and six there and back.
  REQUIRE(answer.candidates[0].also.size() >= 1);
  REQUIRE(answer.candidates.size() < names);
  REQUIRE(names >= 13);
}

TEST_CASE("two cliques land on two nodes") {
  RankTraffic traffic;
  traffic.ranks = 16;
  for (std::uint32_t a = 0; a < 16; ++a) {
    for (std::uint32_t b = 0; b < 16; ++b) {
      if (a != b && a % 2 == b % 2)
        traffic.flows.push_back({a, b, 10, 1});
    }
  }
  const LargeMachine machine = hierarchy({8, 2});
  const LargeAnswer answer = solve({machine, traffic, Objective::cost, Method::automatic, 10});
  REQUIRE(answer.placed().cost == 16 * 7 * 10);
  for (std::uint32_t r = 2; r < 16; ++r)
    REQUIRE(answer.device_of_rank[r] / 8 == answer.device_of_rank[r % 2] / 8);
}

TEST_CASE("ranks that leave slots free are spread where that is faster") {
  // 16 nodes of 8 slots, whose uplinks are as fast as those of a slot.
  const LargeMachine machine = HierarchyMachine({8, 16}, {1, 10}, {1e9, 1e9}, {0, 0});
  const RankTraffic traffic = random_traffic(16, 8, 5);
  LargeRequest request = requested(traffic, machine, Method::automatic, 10);
  request.objective = Objective::time;
  const LargeAnswer answer = solve(request);
  REQUIRE(one_to_one(answer.device_of_rank, 128));
  REQUIRE(answer.placed().prediction.predicted_s < 0.5 * answer.home().prediction.predicted_s);
  std::set<std::uint32_t> nodes;
  for (const std::uint32_t slot : answer.device_of_rank)
    nodes.insert(slot / 8);
  REQUIRE(nodes.size() > 2);           // which the ranks would fill
  request.objective = Objective::cost; // near each other they cost least
  for (const LargeCandidate &each : solve(request).candidates)
    REQUIRE(each.name.rfind("spread", 0) != 0);
}
