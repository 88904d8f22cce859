// A dragonfly: fully connected groups of fully connected routers (Kim, Dally, Scott, Abts, ISCA
// 2008).
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "toposeat/machines/node_links.hpp"
#include "toposeat/machines/slot_tree.hpp"

namespace toposeat {

/// In slot order: group, router, node, device. Two slots are `node_cost` apart on a node,
/// `router_cost` on a router, `local_cost` more for each local and `global_cost` more for the
/// global hop. Routes are minimal: local, global, local, where the router that holds the global
/// link needs no local hop. The global links of a group are dealt to its routers in rising order of
/// the other group.
struct DragonflyShape {
  std::uint32_t groups = 1;
  std::uint32_t routers_per_group = 1;
  std::uint32_t nodes_per_router = 1;
  std::uint32_t devices_per_node = 1;
  double node_cost = 1;
  double router_cost = 1;
  double local_cost = 1;
  double global_cost = 1;
  double device_bandwidth = 1; // bytes/s per direction, as all others
  double node_bandwidth = 1;
  double local_bandwidth = 1;
  double global_bandwidth = 1; // between two groups
  double node_latency = 0;
  double local_latency = 0;
  double global_latency = 0;
};

class DragonflyMachine {
public:
  /// Throws std::invalid_argument on a zero, a number that is not finite, or more than `most_slots`
  /// slots.
  explicit DragonflyMachine(const DragonflyShape &shape);

  [[nodiscard]] std::uint32_t slots() const { return below_.slots; }
  [[nodiscard]] double distance(std::uint32_t a, std::uint32_t b) const {
    if (a / shape_.devices_per_node == b / shape_.devices_per_node)
      return a == b ? 0 : shape_.node_cost;
    const std::uint32_t from = a / per_router_;
    const std::uint32_t to = b / per_router_;
    const Hops hops = hops_between(from, to);
    return shape_.router_cost + hops.local * shape_.local_cost + hops.global * shape_.global_cost;
  }
  [[nodiscard]] SlotTree tree() const;
  [[nodiscard]] const DragonflyShape &shape() const { return shape_; }

  [[nodiscard]] double latency(std::uint32_t a, std::uint32_t b) const;
  [[nodiscard]] std::uint32_t links() const { return below_.end(); }
  [[nodiscard]] double capacity(std::uint32_t link) const;
  [[nodiscard]] std::string link_name(std::uint32_t link) const;

  /// Calls `use(link)` for each link from slot a to another slot b.
  template <class Use> void route(std::uint32_t a, std::uint32_t b, Use use) const {
    if (!below_.cross(a, b, use))
      return;
    std::uint32_t from = a / per_router_;
    const std::uint32_t to = b / per_router_;
    const std::uint32_t group_a = from / shape_.routers_per_group;
    const std::uint32_t group_b = to / shape_.routers_per_group;
    if (group_a != group_b) {
      local_hop(from, gateway(group_a, group_b), use);
      use(first_global_link_ + group_a * shape_.groups + group_b);
      from = gateway(group_b, group_a);
    }
    local_hop(from, to, use);
  }

private:
  struct Hops {
    std::uint32_t local = 0;
    std::uint32_t global = 0;
  };

  /// Router of group `here` that holds its link to group `there`.
  [[nodiscard]] std::uint32_t gateway(std::uint32_t here, std::uint32_t there) const {
    const std::uint32_t link = there < here ? there : there - 1;
    return here * shape_.routers_per_group + link / links_per_router_;
  }

  [[nodiscard]] Hops hops_between(std::uint32_t from, std::uint32_t to) const {
    if (from == to)
      return {};
    const std::uint32_t group_a = from / shape_.routers_per_group;
    const std::uint32_t group_b = to / shape_.routers_per_group;
    if (group_a == group_b)
      return {1, 0};
    return {(gateway(group_a, group_b) != from ? 1U : 0U) +
                (gateway(group_b, group_a) != to ? 1U : 0U),
            1};
  }

  template <class Use> void local_hop(std::uint32_t from, std::uint32_t to, Use use) const {
    if (from != to)
      use(from * shape_.routers_per_group + to % shape_.routers_per_group);
  }

  DragonflyShape shape_;
  NodeLinks below_; // the routers
  std::uint32_t per_router_ = 1;
  std::uint32_t links_per_router_ = 1;
  std::uint32_t first_global_link_ = 0;
};

} // namespace toposeat
