// Machines and traffics for the tests of large jobs.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "base/rng.hpp"
#include "toposeat/machines/large_machine.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat::testing {

inline HierarchyMachine hierarchy(const std::vector<std::uint32_t> &arities) {
  std::vector<double> costs;
  for (std::size_t level = 0; level < arities.size(); ++level)
    costs.push_back(std::pow(10.0, static_cast<double>(level)));
  const std::vector<double> bandwidths(arities.size(), 1e9);
  return HierarchyMachine(arities, costs, bandwidths, std::vector<double>(arities.size(), 1e-6));
}

inline TorusMachine torus(const std::vector<std::uint32_t> &extents, std::uint32_t nodes,
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

inline DragonflyMachine dragonfly(std::uint32_t groups, std::uint32_t routers,
                                  std::uint32_t nodes) {
  DragonflyShape shape;
  shape.groups = groups;
  shape.routers_per_group = routers;
  shape.nodes_per_router = nodes;
  return DragonflyMachine(shape);
}

/// Hosts of four devices, two near pairs, on an irregular tree: three, one and two hosts per leaf.
inline ClusterModel irregular_tree() {
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

inline NodeModel node_of_four() {
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

inline ClusterMachine cluster(bool with_levels) {
  ClusterModel model = irregular_tree();
  if (with_levels)
    model.levels = {{3, 3, 3, 3, 3, 3}, {0, 0, 0, 1, 2, 2}};
  return ClusterMachine(node_of_four(), model);
}

inline RankTraffic random_traffic(std::uint32_t ranks, std::uint32_t degree, std::uint64_t seed) {
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

inline bool one_to_one(const Assignment &slots, std::uint32_t most) {
  const std::set<std::uint32_t> distinct(slots.begin(), slots.end());
  return distinct.size() == slots.size() && (distinct.empty() || *distinct.rbegin() < most);
}

inline std::vector<LargeMachine> machines() {
  return {hierarchy({4, 8, 4}),    hierarchy({3, 1, 5, 2}), hierarchy({7}),
          torus({4, 3, 5}, 2, 1),  torus({4, 4}, 2, 3),     torus({4, 3, 5}, 2, 1, true),
          torus({6}, 1, 4),        dragonfly(5, 4, 3),      dragonfly(1, 1, 9),
          NodesMachine({4, 2, 4}), cluster(false),          cluster(true)};
}

} // namespace toposeat::testing
