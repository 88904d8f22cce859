// Mapping of large jobs: machines, exact slot counts, costs recomputed by brute force.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "catch.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <stdexcept>
#include <vector>

#include "toposeat/base/rng.hpp"
#include "toposeat/division/multisection.hpp"
#include "toposeat/large/geometric_orders.hpp"
#include "toposeat/large/hidden_grid.hpp"
#include "toposeat/large/map_large.hpp"
#include "toposeat/large/process_grid.hpp"
#include "toposeat/large/slot_refinement.hpp"

using namespace toposeat;

namespace {

HierarchyMachine hierarchy(const std::vector<std::uint32_t> &arities) {
  std::vector<double> costs;
  for (std::size_t level = 0; level < arities.size(); ++level)
    costs.push_back(std::pow(10.0, static_cast<double>(level)));
  const std::vector<double> bandwidths(arities.size(), 1e9);
  return HierarchyMachine(arities, costs, bandwidths, std::vector<double>(arities.size(), 1e-6));
}

TorusMachine torus(const std::vector<std::uint32_t> &extents, std::uint32_t nodes,
                   std::uint32_t devices, bool open = false) {
  TorusShape shape;
  shape.extents = extents;
  shape.nodes_per_router = nodes;
  shape.devices_per_node = devices;
  shape.step_cost.assign(extents.size(), 1);
  shape.step_bandwidth.assign(extents.size(), 1e9);
  if (extents.size() > 1) {
    shape.step_cost[1] = 2;
    shape.step_bandwidth[1] = 5e8;
  }
  shape.open = open;
  return TorusMachine(shape);
}

DragonflyMachine dragonfly(std::uint32_t groups, std::uint32_t routers, std::uint32_t nodes) {
  DragonflyShape shape;
  shape.groups = groups;
  shape.routers_per_group = routers;
  shape.nodes_per_router = nodes;
  return DragonflyMachine(shape);
}

GroupedMachine grouped() {
  const std::vector<double> four{0, 1, 2, 2, 1, 0, 2, 2, 2, 2, 0, 1, 2, 2, 1, 0};
  const std::vector<double> two{0, 1, 1, 0};
  return GroupedMachine({four, two, four}, {0, 5, 9, 5, 0, 7, 9, 7, 0});
}

/// Hosts of four devices, two near pairs, on an irregular tree: three, one and two hosts per leaf.
ClusterModel irregular_tree() {
  ClusterModel model;
  model.switches = 4; // leaves 0, 1, 2 and the top
  for (std::uint32_t leaf = 0; leaf < 3; ++leaf) {
    model.links.push_back({leaf, 3, 2e9, 1e-6, 1, "up"});
    model.links.push_back({3, leaf, 2e9, 1e-6, 1, "down"});
  }
  model.attached = {0, 0, 0, 1, 2, 2};
  model.port_bandwidth.assign(6, 1e9);
  model.hosts = {"a", "b", "c", "d", "e", "f"};
  return model;
}

NodeModel node_of_four() {
  NodeModel node;
  node.devices = 4;
  node.cost = {0, 1, 2, 2, 1, 0, 2, 2, 2, 2, 0, 1, 2, 2, 1, 0};
  for (double &cost : node.cost)
    cost *= 1e-10;
  node.latency.assign(16, 1e-6);
  node.pace = node.cost;
  node.within.begin.assign(17, 0);
  node.out.begin.assign(5, 0);
  node.in.begin.assign(5, 0);
  node.port.assign(4, 0);
  node.exit_cost.assign(4, 0);
  node.exit_latency.assign(4, 0);
  return node;
}

ClusterMachine cluster(bool with_levels) {
  ClusterModel model = irregular_tree();
  if (with_levels)
    model.levels = {{3, 3, 3, 3, 3, 3}, {0, 0, 0, 1, 2, 2}};
  return ClusterMachine(node_of_four(), model);
}

RankTraffic random_traffic(std::uint32_t ranks, std::uint32_t degree, std::uint64_t seed) {
  Rng rng(seed);
  RankTraffic traffic;
  traffic.ranks = ranks;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    std::set<std::uint32_t> targets;
    for (std::uint32_t i = 0; i < degree; ++i)
      targets.insert(rng.below(ranks));
    for (const std::uint32_t t : targets) {
      if (t != r)
        traffic.flows.push_back({r, t, 1.0 + rng.below(100), 1});
    }
  }
  return traffic;
}

LargeRequest requested(const RankTraffic &traffic, const LargeMachine &machine, LargeMethod method,
                       double budget_s) {
  return {traffic, machine, LargeObjective::cost, method, budget_s, 1, {}, {}, nullptr};
}

bool one_to_one(const Assignment &slots, std::uint32_t most) {
  const std::set<std::uint32_t> distinct(slots.begin(), slots.end());
  return distinct.size() == slots.size() && (distinct.empty() || *distinct.rbegin() < most);
}

std::vector<LargeMachine> machines() {
  return {hierarchy({4, 8, 4}), hierarchy({3, 1, 5, 2}),
          hierarchy({7}),       torus({4, 3, 5}, 2, 1),
          torus({4, 4}, 2, 3),  torus({4, 3, 5}, 2, 1, true),
          torus({6}, 1, 4),     dragonfly(5, 4, 3),
          dragonfly(1, 1, 9),   grouped(),
          cluster(false),       cluster(true)};
}

} // namespace

TEST_CASE("a slot tree covers every slot once, and its children their part") {
  for (const LargeMachine &machine : machines()) {
    const SlotTree tree = tree_of(machine);
    REQUIRE(tree.order.size() == slots_of(machine));
    REQUIRE(one_to_one(tree.order, slots_of(machine)));
    for (const SlotTree::Part &part : tree.parts) {
      std::uint32_t at = part.begin;
      for (std::uint32_t c = 0; c < part.children; ++c) {
        const SlotTree::Part &child = tree.parts[part.first_child + c];
        REQUIRE(child.begin == at);
        at = child.end;
      }
      REQUIRE((part.children == 0 || at == part.end));
    }
  }
}

TEST_CASE("distances of large machines are symmetric, and zero only at home") {
  for (const LargeMachine &machine : machines()) {
    for (std::uint32_t a = 0; a < slots_of(machine); ++a) {
      REQUIRE(distance_on(machine, a, a) == 0);
      for (std::uint32_t b = 0; b < a; ++b) {
        REQUIRE(distance_on(machine, a, b) > 0);
        REQUIRE(distance_on(machine, a, b) == distance_on(machine, b, a));
      }
    }
  }
}

TEST_CASE("a torus route steps from router to router and is as long as the distance says") {
  const bool open = GENERATE(false, true);
  const TorusMachine machine = torus({4, 3, 5}, 2, 1, open);
  for (std::uint32_t a = 0; a < machine.slots(); ++a) {
    for (std::uint32_t b = 0; b < machine.slots(); ++b) {
      double steps = 0;
      std::uint32_t others = 0;
      if (a != b)
        machine.route(a, b, [&](std::uint32_t link) {
          const std::string name = machine.link_name(link);
          if (name.rfind("router", 0) == 0)
            steps += name.back() == 'Y' ? 2 : 1;
          else
            ++others;
        });
      REQUIRE(others == (a == b ? 0U : 4U)); // slots and nodes, out and in
      if (a / 2 != b / 2)
        REQUIRE(machine.distance(a, b) == 1 + steps);
    }
  }
}

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
  const LargeAnswer answer = map_large(requested(star, machine, LargeMethod::multilevel, 0.05));
  REQUIRE(one_to_one(answer.slot_of_rank, slots_of(machine)));
  REQUIRE(answer.placed.cost <= answer.home.cost);
}

TEST_CASE("a search that is told to stop returns the best so far") {
  const RankTraffic traffic = random_traffic(1024, 4, 9);
  const LargeMachine machine = hierarchy({4, 8, 32});
  for (const std::string stage : {"orders", "multilevel", "swaps", "never"}) {
    StopFlag stop = false;
    LargeRequest request = requested(traffic, machine, LargeMethod::multilevel, 60);
    request.stop = &stop;
    request.progress = [&](const std::string &now, double) { stop = stop || now == stage; };
    const LargeAnswer answer = map_large(request);
    REQUIRE(one_to_one(answer.slot_of_rank, slots_of(machine)));
    REQUIRE(answer.interrupted == (stage != "never"));
    REQUIRE(answer.placed.cost <= answer.home.cost);
    if (stage == "swaps" || stage == "never") // the search was over by then
      REQUIRE(answer.placed.cost < 0.8 * answer.home.cost);
  }
}

TEST_CASE("ways to the same placement are one candidate") {
  RankTraffic ring;
  ring.ranks = 64;
  for (std::uint32_t r = 0; r < 64; ++r)
    ring.flows.push_back({r, (r + 1) % 64, 1, 1});
  const LargeMachine machine = torus({4, 4, 4}, 1, 1);
  const LargeAnswer answer = map_large(requested(ring, machine, LargeMethod::geometric, 60));
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
  const LargeAnswer answer =
      map_large({traffic, machine, LargeObjective::cost, LargeMethod::multilevel, 10, 1, {}, {}});
  REQUIRE(answer.placed.cost == 16 * 7 * 10);
  for (std::uint32_t r = 2; r < 16; ++r)
    REQUIRE(answer.slot_of_rank[r] / 8 == answer.slot_of_rank[r % 2] / 8);
}

TEST_CASE("a process grid is recognised from its traffic, and a random graph is none") {
  RankTraffic traffic;
  traffic.ranks = 6 * 4 * 5;
  for (std::uint32_t r = 0; r < traffic.ranks; ++r) {
    const std::uint32_t z = r % 5;
    const std::uint32_t y = r / 5 % 4;
    const std::uint32_t x = r / 20;
    if (z + 1 < 5)
      traffic.flows.push_back({r, r + 1, 3, 1});
    if (y + 1 < 4)
      traffic.flows.push_back({r, r + 5, 2, 1});
    if (x + 1 < 6)
      traffic.flows.push_back({r, r + 20, 1, 1});
  }
  const auto grid = recognise_grid(rank_graph(traffic, traffic.ranks), Deadline::in(60));
  REQUIRE(grid.has_value());
  REQUIRE(grid->extents == std::vector<std::uint32_t>{6, 4, 5});
  REQUIRE_FALSE(grid->wraps);
  REQUIRE_FALSE(
      recognise_grid(rank_graph(random_traffic(120, 4, 1), 120), Deadline::in(60)).has_value());
}

namespace {

/// A stencil on a grid of three dimensions whose ranks are numbered at random: `place[r]`.
/// `reach` dimensions may change in one step: 1 faces only, 3 all 26 neighbours. A weight for each
/// number of them.
RankTraffic shuffled_stencil(const std::vector<std::uint32_t> &extents, std::uint32_t reach,
                             const std::vector<double> &weights, bool wraps,
                             const std::vector<std::uint32_t> &rank_at) {
  RankTraffic traffic;
  traffic.ranks = extents[0] * extents[1] * extents[2];
  for (std::uint32_t here = 0; here < traffic.ranks; ++here) {
    for (std::uint32_t step = 0; step < 27; ++step) {
      const std::uint32_t moves[3] = {step / 9, step / 3 % 3, step % 3}; // 0 back, 1 none, 2 on
      const std::uint32_t at[3] = {here / extents[2] / extents[1], here / extents[2] % extents[1],
                                   here % extents[2]};
      std::uint32_t there = 0;
      std::uint32_t changed = 0;
      bool inside = true;
      for (std::size_t d = 0; d < 3; ++d) {
        const std::uint32_t to = at[d] + extents[d] + moves[d] - 1;
        inside = inside && (wraps || (to >= extents[d] && to < 2 * extents[d]));
        there = there * extents[d] + to % extents[d];
        changed += moves[d] != 1 ? 1 : 0;
      }
      if (inside && changed > 0 && changed <= reach && there != here)
        traffic.flows.push_back({rank_at[here], rank_at[there], weights[changed - 1], 1});
    }
  }
  return traffic;
}

/// Faces of the grid that the ranks' places span: neighbours in the given grid that are neighbours
/// in the one found, by steps of all dimensions together.
bool same_neighbours(const std::vector<std::uint32_t> &extents, const HiddenGrid &found,
                     const std::vector<std::uint32_t> &rank_at) {
  const auto step_of = [&](std::uint32_t a, std::uint32_t b) {
    std::uint32_t steps = 0;
    for (std::size_t d = found.extents.size(); d-- > 0;) {
      const std::uint32_t x = a % found.extents[d];
      const std::uint32_t y = b % found.extents[d];
      steps += std::min(x > y ? x - y : y - x, found.extents[d] - (x > y ? x - y : y - x));
      a /= found.extents[d];
      b /= found.extents[d];
    }
    return steps;
  };
  for (std::uint32_t here = 0; here < rank_at.size(); ++here) {
    const std::uint32_t stride[3] = {extents[1] * extents[2], extents[2], 1};
    for (std::size_t d = 0; d < 3; ++d) {
      if (here / stride[d] % extents[d] + 1 < extents[d] &&
          step_of(found.place[rank_at[here]], found.place[rank_at[here + stride[d]]]) != 1)
        return false;
    }
  }
  return true;
}

} // namespace

TEST_CASE(
    "a grid is found behind ranks in no order: chains and rings, with and without diagonals") {
  struct Shape {
    std::vector<std::uint32_t> extents;
    std::uint32_t reach;
    std::vector<double> weights;
    bool wraps;
  };
  const std::vector<double> fading{64, 8, 1};
  const std::vector<double> even{1, 1, 1};
  const std::vector<Shape> shapes{
      {{6, 5, 4}, 1, even, false},   {{6, 5, 3}, 3, fading, false}, {{7, 3, 4}, 3, even, false},
      {{5, 5, 5}, 3, even, false},   {{4, 2, 3}, 3, fading, false}, {{7, 6, 5}, 1, even, true},
      {{7, 6, 5}, 3, fading, true},  {{8, 7, 6}, 3, even, true},    {{9, 8, 1}, 2, even, false},
      {{6, 5, 4}, 2, fading, false},
  };
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (const Shape &shape : shapes) {
      const std::uint32_t ranks = shape.extents[0] * shape.extents[1] * shape.extents[2];
      const auto rank_at = Rng(seed).permutation(ranks);
      const RankTraffic traffic =
          shuffled_stencil(shape.extents, shape.reach, shape.weights, shape.wraps, rank_at);
      CAPTURE(shape.extents, shape.reach, shape.wraps, seed);
      const auto found = hidden_grid(rank_graph(traffic, ranks));
      REQUIRE(found.has_value());
      auto extents = shape.extents;
      std::erase(extents, 1U);
      std::sort(extents.rbegin(), extents.rend());
      REQUIRE(found->extents == extents);
      REQUIRE(std::set<std::uint32_t>(found->place.begin(), found->place.end()).size() == ranks);
      REQUIRE(same_neighbours(shape.extents, *found, rank_at));
    }
  }
}

TEST_CASE("no grid is found where there is none") {
  const auto found = [](const RankTraffic &traffic) {
    return hidden_grid(rank_graph(traffic, traffic.ranks)).has_value();
  };
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    REQUIRE_FALSE(found(random_traffic(120, 4, seed)));
    REQUIRE_FALSE(found(random_traffic(16, 3, seed)));
  }
  const auto rank_at = Rng(1).permutation(120);
  RankTraffic traffic = shuffled_stencil({6, 5, 4}, 1, {1, 1, 1}, false, rank_at);
  traffic.ranks = 121; // one who says nothing
  REQUIRE_FALSE(found(traffic));
  traffic.ranks = 120;
  traffic.flows.push_back({rank_at[0], rank_at[119], 1, 1}); // a light edge across it all
  REQUIRE(found(traffic));
  traffic.flows.push_back({rank_at[119], rank_at[0], 1, 1}); // as heavy as those of the grid
  REQUIRE_FALSE(found(traffic));
  RankTraffic star;
  star.ranks = 200;
  for (std::uint32_t r = 1; r < star.ranks; ++r)
    star.flows.push_back({0, r, 1, 1});
  REQUIRE_FALSE(found(star));
  REQUIRE_FALSE(found({1, {}}));
  REQUIRE_FALSE(found({5, {}}));
}

TEST_CASE("a stencil is placed as well with its ranks in no order") {
  const std::vector<std::uint32_t> extents{8, 8, 4};
  const LargeMachine machine = hierarchy({4, 4, 16});
  const auto placed_cost = [&](const std::vector<std::uint32_t> &rank_at) {
    const RankTraffic traffic = shuffled_stencil(extents, 3, {64, 8, 1}, false, rank_at);
    return map_large(
               {traffic, machine, LargeObjective::cost, LargeMethod::geometric, 10, 1, {}, {}})
        .placed.cost;
  };
  std::vector<std::uint32_t> in_order(256);
  std::iota(in_order.begin(), in_order.end(), 0U);
  const double cost = placed_cost(in_order);
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    REQUIRE(placed_cost(Rng(seed).permutation(256)) == cost);
}

TEST_CASE("curves visit every rank once; Hilbert only steps to neighbours on a full cube") {
  const ProcessGrid cube{{8, 8, 8}, {1, 1, 1}, false};
  const std::vector<std::uint32_t> hilbert = hilbert_order(cube);
  REQUIRE(one_to_one(hilbert, 512));
  for (std::size_t i = 1; i < hilbert.size(); ++i) {
    std::uint32_t steps = 0;
    for (const std::uint32_t unit : {1U, 8U, 64U}) {
      const std::uint32_t x = hilbert[i] / unit % 8;
      const std::uint32_t y = hilbert[i - 1] / unit % 8;
      steps += x > y ? x - y : y - x;
    }
    REQUIRE(steps == 1);
  }
  const ProcessGrid odd{{5, 3, 7}, {1, 1, 1}, false};
  REQUIRE(one_to_one(hilbert_order(odd), 105));
  REQUIRE(one_to_one(morton_order(odd), 105));
  REQUIRE(one_to_one(block_order(odd, {{2, 2, 2}, {4, 2, 4}}), 105));
}

TEST_CASE("blocks of 4:8 on a 16x16x16 grid are 4x4x2 blocks of 2x2x1") {
  const ProcessGrid grid{{16, 16, 16}, {1, 1, 1}, false};
  const auto blocks = best_blocks(grid, {4, 8, 128}, {1, 10, 100});
  REQUIRE(blocks.size() == 2);
  std::vector<std::uint32_t> small = blocks[0];
  std::vector<std::uint32_t> large = blocks[1];
  std::sort(small.begin(), small.end());
  std::sort(large.begin(), large.end());
  REQUIRE(small == std::vector<std::uint32_t>{1, 2, 2});
  REQUIRE(large == std::vector<std::uint32_t>{2, 4, 4});
}

TEST_CASE("large machines refuse what makes no sense") {
  REQUIRE_THROWS_AS(hierarchy({4, 0, 2}), std::invalid_argument);
  REQUIRE_THROWS_AS(hierarchy({}), std::invalid_argument);
  REQUIRE_THROWS_AS(hierarchy({65536, 65536}), std::invalid_argument);
  REQUIRE_THROWS_AS(HierarchyMachine({2, 2}, {10, 1}, {1, 1}, {0, 0}), std::invalid_argument);
  REQUIRE_THROWS_AS(HierarchyMachine({2}, {1}, {0}, {0}), std::invalid_argument);
  REQUIRE_THROWS_AS(HierarchyMachine({2}, {NAN}, {1}, {0}), std::invalid_argument);
  REQUIRE_THROWS_AS(torus({0}, 1, 1), std::invalid_argument);
  REQUIRE_THROWS_AS(torus({2, 2, 2, 2, 2}, 1, 1), std::invalid_argument);
  REQUIRE_THROWS_AS(torus({60000, 60000}, 1, 1), std::invalid_argument);
  REQUIRE_THROWS_AS(dragonfly(0, 1, 1), std::invalid_argument);
  REQUIRE_THROWS_AS(dragonfly(4000, 1000, 1), std::invalid_argument);
  REQUIRE_THROWS_AS(GroupedMachine({{0, 1}}, {0}), std::invalid_argument);
}

TEST_CASE("a network's destinations spread over ways that are as short, each on one of them") {
  // Two leaves, three spines, four hosts of one device on each leaf.
  ClusterModel model;
  model.switches = 5;
  for (std::uint32_t leaf = 0; leaf < 2; ++leaf) {
    for (std::uint32_t spine = 2; spine < 5; ++spine) {
      model.links.push_back({leaf, spine, 1e9, 1e-6, 1, "up"});
      model.links.push_back({spine, leaf, 1e9, 1e-6, 1, "down"});
    }
  }
  model.attached = {0, 0, 0, 1, 1, 1};
  model.port_bandwidth.assign(6, 1e9);
  model.hosts = {"a", "b", "c", "d", "e", "f"};
  NodeModel node;
  node.cost = node.latency = node.pace = {0};
  node.within.begin = node.out.begin = node.in.begin = {0, 0};
  node.port = {0};
  node.exit_cost = node.exit_latency = {0};
  const ClusterMachine machine(node, model);
  std::set<std::uint32_t> spines;
  for (std::uint32_t to = 3; to < 6; ++to) {
    std::vector<std::vector<std::uint32_t>> ways;
    for (std::uint32_t from = 0; from < 3; ++from) {
      std::vector<std::uint32_t> way;
      machine.route(from, to, [&](std::uint32_t link) { way.push_back(link); });
      REQUIRE(way.size() == 4);
      ways.push_back({way[1], way[2]});
    }
    REQUIRE(ways[0] == ways[1]);
    REQUIRE(ways[0] == ways[2]);
    spines.insert(ways[0][0]);
  }
  REQUIRE(spines.size() == 3);
}

TEST_CASE("a network that does not join its hosts, or whose lists do not fit, is refused") {
  ClusterModel apart = irregular_tree();
  apart.links.resize(2);
  REQUIRE_THROWS_AS(ClusterMachine(node_of_four(), apart), std::invalid_argument);
  ClusterModel nowhere = irregular_tree();
  nowhere.attached.back() = 9;
  REQUIRE_THROWS_AS(ClusterMachine(node_of_four(), nowhere), std::invalid_argument);
  ClusterModel level = irregular_tree();
  level.levels = {{0}};
  REQUIRE_THROWS_AS(ClusterMachine(node_of_four(), level), std::invalid_argument);
  NodeModel node = node_of_four();
  node.within.links = {0};
  node.within.begin.back() = 1;
  REQUIRE_THROWS_AS(ClusterMachine(node, irregular_tree()), std::invalid_argument);
}
