// SPDX-License-Identifier: MIT OR Apache-2.0
#include "large/large_candidates.hpp"

#include <algorithm>
#include <numeric>

#include "large/geometric_orders.hpp"

namespace toposeat {
namespace {

constexpr double emphasis = 1.5; // of one dimension over the others in a variant

/// Slots of a torus with the dimensions nested in `nesting` (slowest first); `snake` turns round at
/// the end of each row instead of jumping back to its beginning.
std::vector<std::uint32_t> torus_order(const TorusShape &shape,
                                       const std::vector<std::size_t> &nesting, bool snake) {
  const std::uint32_t seats = shape.nodes_per_router * shape.devices_per_node;
  std::uint32_t routers = 1;
  for (const std::uint32_t extent : shape.extents)
    routers *= extent;
  std::vector<std::uint32_t> place(shape.extents.size());
  std::vector<std::uint32_t> order;
  order.reserve(std::size_t{routers} * seats);
  for (std::uint32_t i = 0; i < routers; ++i) {
    std::uint32_t before = routers; // rows passed so far: odd ones run backwards
    std::uint32_t rest = i;
    for (const std::size_t d : nesting) {
      before /= shape.extents[d];
      const std::uint32_t row = i / before / shape.extents[d];
      const std::uint32_t x = rest / before;
      rest %= before;
      place[d] = snake && row % 2 == 1 ? shape.extents[d] - 1 - x : x;
    }
    std::uint32_t router = 0;
    for (std::size_t d = 0; d < place.size(); ++d)
      router = router * shape.extents[d] + place[d];
    for (std::uint32_t s = 0; s < seats; ++s)
      order.push_back(router * seats + s);
  }
  return order;
}

std::string axes_of(const std::vector<std::size_t> &nesting) {
  std::string name;
  for (const std::size_t d : nesting)
    name += "XYZW"[d];
  return name;
}

/// Arities from the leaf level up and the cost of each level, for block shapes.
struct Levels {
  std::vector<std::uint32_t> arities;
  std::vector<double> costs;
};

Levels levels_of(const HierarchyMachine &machine) { return {machine.arities(), machine.costs()}; }

Levels levels_of(const TorusMachine &machine) {
  const TorusShape &shape = machine.shape();
  std::uint32_t routers = 1;
  for (const std::uint32_t extent : shape.extents)
    routers *= extent;
  const double step = *std::max_element(shape.step_cost.begin(), shape.step_cost.end());
  return {{shape.devices_per_node, shape.nodes_per_router, routers},
          {shape.node_cost, shape.router_cost, shape.router_cost + step}};
}

Levels levels_of(const DragonflyMachine &machine) {
  const DragonflyShape &shape = machine.shape();
  const double local = shape.router_cost + shape.local_cost;
  return {
      {shape.devices_per_node, shape.nodes_per_router, shape.routers_per_group, shape.groups},
      {shape.node_cost, shape.router_cost, local, local + shape.local_cost + shape.global_cost}};
}

Levels levels_of(const NodesMachine &machine) {
  return {{machine.slots() / machine.nodes(), machine.nodes()}, {0, 1}};
}

Levels levels_of(const ClusterMachine &machine) {
  return {{machine.devices_per_host(), machine.hosts()}, {0, 1}};
}

/// Stretches to try: none, by how much is said along each dimension, and each dimension in turn.
std::vector<std::pair<std::string, std::vector<double>>> stretches(const ProcessGrid &grid) {
  const std::size_t dimensions = grid.extents.size();
  const std::vector<double> even(dimensions, 1);
  std::vector<std::pair<std::string, std::vector<double>>> result{{"", even}};
  const double most = *std::max_element(grid.pull.begin(), grid.pull.end());
  const double least = *std::min_element(grid.pull.begin(), grid.pull.end());
  if (least < 0.9 * most) {
    std::vector<double> weighted = even;
    for (std::size_t d = 0; d < dimensions; ++d) // dear edges are cut last
      weighted[d] = most / std::max(grid.pull[d], 1e-6 * most);
    result.emplace_back(" by weight", weighted);
  }
  for (std::size_t d = 0; d < dimensions; ++d) {
    std::vector<double> one = even;
    one[d] = emphasis;
    result.emplace_back(" along " + std::to_string(d), one);
  }
  return result;
}

/// Slots along a Hilbert curve through the routers: with ranks along another, what is near on one
/// curve is near on the other.
std::vector<std::uint32_t> torus_curve(const TorusShape &shape) {
  const ProcessGrid routers{shape.extents, std::vector<double>(shape.extents.size(), 1), true};
  const std::uint32_t seats = shape.nodes_per_router * shape.devices_per_node;
  std::vector<std::uint32_t> slots;
  for (const std::uint32_t router : hilbert_order(routers)) {
    for (std::uint32_t s = 0; s < seats; ++s)
      slots.push_back(router * seats + s);
  }
  return slots;
}

} // namespace

bool machine_orders(const LargeMachine &machine, std::uint32_t ranks, const TakePlacement &take) {
  const auto *torus = std::get_if<TorusMachine>(&machine);
  if (torus == nullptr)
    return true;
  std::vector<std::size_t> nesting(torus->shape().extents.size());
  std::iota(nesting.begin(), nesting.end(), std::size_t{0});
  do {
    for (const bool snake : {false, true}) {
      std::vector<std::uint32_t> order = torus_order(torus->shape(), nesting, snake);
      order.resize(ranks);
      if (!take((snake ? "snake " : "Cartesian ") + axes_of(nesting), std::move(order)))
        return false;
    }
  } while (std::next_permutation(nesting.begin(), nesting.end()));
  return true;
}

bool grid_placements(const ProcessGrid &grid, const LargeMachine &machine, const SlotTree &tree,
                     std::uint32_t ranks, const TakePlacement &take) {
  const Coordinates coordinates = grid_coordinates(grid, ranks);
  for (const auto &[name, stretch] : stretches(grid)) {
    if (!take("coordinate bisection" + name, coordinate_bisection(coordinates, tree, stretch)))
      return false;
  }
  const std::vector<std::uint32_t> hilbert = hilbert_order(grid);
  if (!take("Hilbert", along(hilbert, tree.order)) ||
      !take("Morton", along(morton_order(grid), tree.order)))
    return false;
  const Levels levels = std::visit([](const auto &each) { return levels_of(each); }, machine);
  const auto blocks = best_blocks(grid, levels.arities, levels.costs);
  if (!blocks.empty() && !take("blocks", along(block_order(grid, blocks), tree.order)))
    return false;
  const auto *torus = std::get_if<TorusMachine>(&machine);
  const bool whole = tree.order.size() == slots_of(machine);
  return torus == nullptr || !whole ||
         take("Hilbert on both", along(hilbert, torus_curve(torus->shape())));
}

} // namespace toposeat
