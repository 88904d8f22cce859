// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/machines/dragonfly_machine.hpp"

#include <algorithm>
#include <stdexcept>

#include "machines/machine_checks.hpp"

namespace toposeat {
namespace {

constexpr std::uint64_t most_links = 1U << 26; // 64 Mi loads of 8 bytes

} // namespace

DragonflyMachine::DragonflyMachine(const DragonflyShape &shape) : shape_(shape) {
  check_numbers({shape.node_cost, shape.router_cost, shape.local_cost, shape.global_cost}, 0,
                "a cost is");
  check_numbers({shape.node_latency, shape.local_latency, shape.global_latency}, 0, "a latency is");
  check_capacities({shape.device_bandwidth, shape.node_bandwidth, shape.local_bandwidth,
                    shape.global_bandwidth});
  const std::uint32_t routers = checked_slots({shape.groups, shape.routers_per_group});
  below_.nodes = checked_slots({routers, shape.nodes_per_router});
  below_.slots = checked_slots({below_.nodes, shape.devices_per_node});
  per_router_ = below_.slots / routers;
  const std::uint64_t local = std::uint64_t{routers} * shape.routers_per_group;
  const std::uint64_t global = std::uint64_t{shape.groups} * shape.groups;
  if (local + global + 2 * (std::uint64_t{below_.slots} + below_.nodes) > most_links)
    throw std::invalid_argument("a dragonfly with more links than memory should hold");
  first_global_link_ = static_cast<std::uint32_t>(local);
  below_.first = static_cast<std::uint32_t>(local + global);
  // Rounded up, so that the last router has fewer where they do not divide evenly.
  const std::uint32_t others = std::max(1U, shape.groups - 1);
  links_per_router_ = (others + shape.routers_per_group - 1) / shape.routers_per_group;
}

SlotTree DragonflyMachine::tree() const {
  return nested_tree(
      {shape_.devices_per_node, shape_.nodes_per_router, shape_.routers_per_group, shape_.groups});
}

double DragonflyMachine::latency(std::uint32_t a, std::uint32_t b) const {
  if (a / shape_.devices_per_node == b / shape_.devices_per_node)
    return 0;
  const Hops hops = hops_between(a / per_router_, b / per_router_);
  return shape_.node_latency + hops.local * shape_.local_latency +
         hops.global * shape_.global_latency;
}

double DragonflyMachine::capacity(std::uint32_t link) const {
  if (link < first_global_link_)
    return shape_.local_bandwidth;
  if (link < below_.first)
    return shape_.global_bandwidth;
  return below_.of_slot(link) ? shape_.device_bandwidth : shape_.node_bandwidth;
}

std::string DragonflyMachine::link_name(std::uint32_t link) const {
  if (link < first_global_link_) {
    const std::uint32_t from = link / shape_.routers_per_group;
    const std::uint32_t group = from / shape_.routers_per_group;
    return "router " + std::to_string(from) + " -> router " +
           std::to_string(group * shape_.routers_per_group + link % shape_.routers_per_group);
  }
  if (link < below_.first) {
    const std::uint32_t pair = link - first_global_link_;
    return "group " + std::to_string(pair / shape_.groups) + " -> group " +
           std::to_string(pair % shape_.groups);
  }
  return below_.name(link);
}

} // namespace toposeat
