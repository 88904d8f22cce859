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
    const std::uint32_t slots = slots_of(machine);
    for (const std::uint32_t count : {slots, slots - 1, slots / 3, 1U}) {
      const SlotTree tree = count == slots ? tree_of(machine) : thinned(tree_of(machine), count);
      REQUIRE(tree.order.size() == count);
      REQUIRE(one_to_one(tree.order, slots));
      REQUIRE(tree.parts.front().size() == count);
      for (const SlotTree::Part &part : tree.parts) {
        std::uint32_t at = part.begin;
        for (std::uint32_t c = 0; c < part.children; ++c) {
          const SlotTree::Part &child = tree.parts[part.first_child + c];
          REQUIRE(child.begin == at);
          REQUIRE(child.size() > 0);
          at = child.end;
        }
        REQUIRE((part.children == 0 || at == part.end));
      }
    }
  }
}

TEST_CASE("distances of large machines are symmetric, and zero only at home or on a node") {
  for (const LargeMachine &machine : machines()) {
    for (std::uint32_t a = 0; a < slots_of(machine); ++a) {
      REQUIRE(distance_on(machine, a, a) == 0);
      for (std::uint32_t b = 0; b < a; ++b) {
        REQUIRE((distance_on(machine, a, b) > 0 || std::holds_alternative<NodesMachine>(machine)));
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
  REQUIRE_THROWS_AS(NodesMachine({4, 0}), std::invalid_argument);
  REQUIRE_THROWS_AS(NodesMachine(std::vector<std::uint32_t>{}), std::invalid_argument);
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

TEST_CASE("hosts of one domain are joined by their own fabric, not by the network") {
  // Hosts 0 and 3, which are on different leaves, are a domain; so are the others.
  ClusterModel model = irregular_tree();
  model.domain = {7, 1, 1, 7, 1, 1};
  NodeModel node = node_of_four();
  node.bandwidth.assign(8, 5e10); // device k to the fabric: 2 k, back: 2 k + 1
  node.names.assign(8, "link");
  for (std::uint32_t device = 0; device < 4; ++device) {
    node.to_fabric.links.push_back(2 * device);
    node.from_fabric.links.push_back(2 * device + 1);
    node.to_fabric.begin.push_back(device + 1);
    node.from_fabric.begin.push_back(device + 1);
  }
  node.fabric_cost = 5e-11;
  node.fabric_latency = 2e-6;
  node.fabric_pace = 3e-11;
  const ClusterMachine machine(node, model);
  const ClusterMachine apart(node_of_four(), irregular_tree());

  const std::uint32_t a = 1;      // device 1 of host 0
  const std::uint32_t b = 12 + 2; // device 2 of host 3
  const std::uint32_t c = 4 + 2;  // device 2 of host 1
  REQUIRE(machine.distance(a, b) == 1);
  REQUIRE(machine.distance(b, a) == 1);
  REQUIRE(machine.latency(a, b) == 2e-6);
  REQUIRE(machine.pace(a, b) == 3e-11);
  const auto way = [&](std::uint32_t from, std::uint32_t to) {
    std::vector<std::uint32_t> links;
    machine.route(from, to, [&](std::uint32_t link) { links.push_back(link); });
    return links;
  };
  const std::uint32_t first = machine.links() - 6 * 8;
  REQUIRE(way(a, b) == std::vector<std::uint32_t>{first + 2, first + 3 * 8 + 5});
  REQUIRE(way(a, c).front() < first);
  REQUIRE(machine.latency(a, c) == apart.latency(a, c));
  REQUIRE(machine.distance(a, c) == 2 * apart.distance(a, c)); // the unit is half as long

  const SlotTree tree = machine.tree();
  REQUIRE(tree.parts.front().children == 2);
  const SlotTree::Part &one = tree.parts[tree.parts.front().first_child];
  std::set<std::uint32_t> hosts;
  for (std::uint32_t at = one.begin; at < one.end; ++at)
    hosts.insert(tree.order[at] / 4);
  const std::set<std::uint32_t> small{0, 3};
  const std::set<std::uint32_t> large{1, 2, 4, 5};
  REQUIRE((hosts == small || hosts == large));

  ClusterModel few = irregular_tree();
  few.domain = {0, 0};
  REQUIRE_THROWS_AS(ClusterMachine(node, few), std::invalid_argument);
  REQUIRE_THROWS_AS(ClusterMachine(node_of_four(), model), std::invalid_argument);
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
