// Machines for large jobs: slots, distances, ways, and what they refuse.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "catch.hpp"
#include "large_machines.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <vector>

#include "toposeat/machines/slot_tree.hpp"

using namespace toposeat;
using namespace toposeat::testing;

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
