// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/machines/torus_machine.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "machines/machine_checks.hpp"

namespace toposeat {
namespace {

constexpr std::size_t most_dimensions = 4;
constexpr std::uint32_t most_extent = 65535;

void check(const TorusShape &shape) {
  const std::size_t dimensions = shape.extents.size();
  if (dimensions == 0 || dimensions > most_dimensions || shape.step_cost.size() != dimensions ||
      shape.step_bandwidth.size() != dimensions)
    throw std::invalid_argument("a torus has 1 to 4 dimensions, with a cost and a bandwidth each");
  if (*std::max_element(shape.extents.begin(), shape.extents.end()) > most_extent)
    throw std::invalid_argument("a torus with more than 65535 routers along a dimension");
  check_numbers(shape.step_cost, 0, "a cost is");
  check_numbers({shape.node_cost, shape.router_cost}, 0, "a cost is");
  check_numbers({shape.node_latency, shape.step_latency}, 0, "a latency is");
  check_capacities(shape.step_bandwidth);
  check_capacities({shape.device_bandwidth, shape.node_bandwidth});
}

} // namespace

TorusMachine::TorusMachine(TorusShape shape)
    : shape_(std::move(shape)), dimensions_(shape_.extents.size()) {
  check(shape_);
  std::vector<std::uint32_t> sizes = shape_.extents;
  const std::uint32_t routers = checked_slots(sizes);
  sizes.push_back(shape_.nodes_per_router);
  below_.nodes = checked_slots(sizes);
  sizes.push_back(shape_.devices_per_node);
  below_.slots = checked_slots(sizes);
  per_router_ = below_.slots / routers;
  below_.first = routers * static_cast<std::uint32_t>(dimensions_) * 2;
  stride_.assign(dimensions_, 1);
  for (std::size_t d = dimensions_ - 1; d > 0; --d)
    stride_[d - 1] = stride_[d] * shape_.extents[d];
  place_.resize(std::size_t{routers} * dimensions_);
  for (std::uint32_t router = 0; router < routers; ++router) {
    for (std::size_t d = 0; d < dimensions_; ++d)
      place_[router * dimensions_ + d] =
          static_cast<std::uint16_t>(router / stride_[d] % shape_.extents[d]);
  }
  for (std::size_t d = 0; d < dimensions_; ++d) {
    ring_cost_.emplace_back();
    for (std::uint32_t apart = 0; apart < shape_.extents[d]; ++apart)
      ring_cost_[d].push_back(hops(apart, shape_.extents[d]) * shape_.step_cost[d]);
  }
}

std::uint32_t TorusMachine::hops(std::uint32_t apart, std::uint32_t extent) const {
  return shape_.open ? apart : std::min(apart, extent - apart);
}

SlotTree TorusMachine::tree() const {
  SlotTree tree = grid_tree(shape_.extents, shape_.step_cost, per_router_);
  if (shape_.nodes_per_router > 1 && shape_.devices_per_node > 1)
    split_leaves(tree, shape_.nodes_per_router);
  return tree;
}

double TorusMachine::latency(std::uint32_t a, std::uint32_t b) const {
  if (a / shape_.devices_per_node == b / shape_.devices_per_node)
    return 0;
  std::uint32_t steps = 0;
  const std::size_t from = a / per_router_ * dimensions_;
  const std::size_t to = b / per_router_ * dimensions_;
  for (std::size_t d = 0; d < dimensions_; ++d) {
    const std::uint32_t x = place_[from + d];
    const std::uint32_t y = place_[to + d];
    steps += hops(x > y ? x - y : y - x, shape_.extents[d]);
  }
  return shape_.node_latency + steps * shape_.step_latency;
}

double TorusMachine::capacity(std::uint32_t link) const {
  if (link < below_.first)
    return shape_.step_bandwidth[link / 2 % dimensions_];
  return below_.of_slot(link) ? shape_.device_bandwidth : shape_.node_bandwidth;
}

std::string TorusMachine::link_name(std::uint32_t link) const {
  if (link >= below_.first)
    return below_.name(link);
  const std::size_t router = link / 2 / dimensions_;
  std::string name = "router (";
  for (std::size_t d = 0; d < dimensions_; ++d)
    name.append(d > 0 ? "," : "").append(std::to_string(place_[router * dimensions_ + d]));
  return name + ") " + (link % 2 == 0 ? "+" : "-") + "XYZW"[link / 2 % dimensions_];
}

} // namespace toposeat
