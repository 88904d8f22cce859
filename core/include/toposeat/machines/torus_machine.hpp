// A torus of routers with several nodes each, whose dimensions may differ in bandwidth (Gemini).
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "toposeat/machines/node_links.hpp"
#include "toposeat/machines/slot_tree.hpp"

namespace toposeat {

/// One to four dimensions, the first slowest in slot order; then the node of a router, then the
/// device of a node. Two slots are `node_cost` apart on a node, `router_cost` on two nodes of a
/// router, and otherwise `router_cost` plus `step_cost[d]` for each hop along dimension d, the
/// shorter way round. With `open` no link joins the two ends of a dimension: a mesh, which is what
/// an allocation within a larger torus is.
struct TorusShape {
  std::vector<std::uint32_t> extents;
  std::uint32_t nodes_per_router = 1;
  std::uint32_t devices_per_node = 1;
  double node_cost = 1;
  double router_cost = 1;
  std::vector<double> step_cost;
  double device_bandwidth = 1;        // bytes/s per direction
  double node_bandwidth = 1;          // between a node and its router, per direction
  std::vector<double> step_bandwidth; // of a link along each dimension, per direction
  double node_latency = 0;            // seconds of a message that leaves its node
  double step_latency = 0;            // more for each hop
  bool open = false;                  // no links around the ends
};

class TorusMachine {
public:
  /// Throws std::invalid_argument on a zero, a number that is not finite, a list of another length,
  /// or more than `most_slots` slots.
  explicit TorusMachine(TorusShape shape);

  [[nodiscard]] std::uint32_t slots() const { return below_.slots; }
  [[nodiscard]] double distance(std::uint32_t a, std::uint32_t b) const {
    const std::uint32_t from = a / per_router_;
    const std::uint32_t to = b / per_router_;
    if (from == to) {
      if (a / shape_.devices_per_node == b / shape_.devices_per_node)
        return a == b ? 0 : shape_.node_cost;
      return shape_.router_cost;
    }
    double cost = shape_.router_cost;
    const std::uint16_t *x = &place_[std::size_t{from} * dimensions_];
    const std::uint16_t *y = &place_[std::size_t{to} * dimensions_];
    for (std::size_t d = 0; d < dimensions_; ++d)
      cost += ring_cost_[d][static_cast<std::size_t>(x[d] > y[d] ? x[d] - y[d] : y[d] - x[d])];
    return cost;
  }
  [[nodiscard]] SlotTree tree() const;
  [[nodiscard]] const TorusShape &shape() const { return shape_; }

  [[nodiscard]] double latency(std::uint32_t a, std::uint32_t b) const;
  [[nodiscard]] std::uint32_t links() const { return below_.end(); }
  [[nodiscard]] double capacity(std::uint32_t link) const;
  [[nodiscard]] std::string link_name(std::uint32_t link) const;

  /// Calls `use(link)` for each link from slot a to another slot b: dimension-ordered, the first
  /// dimension first, the shorter way round each ring and upwards where both are as short.
  template <class Use> void route(std::uint32_t a, std::uint32_t b, Use use) const {
    if (!below_.cross(a, b, use))
      return;
    std::uint32_t router = a / per_router_;
    const std::uint32_t last = b / per_router_;
    for (std::size_t d = 0; d < dimensions_; ++d)
      router = walk_ring(router, last, d, use);
  }

private:
  /// Between two routers whose places along a dimension of `extent` are `apart`.
  [[nodiscard]] std::uint32_t hops(std::uint32_t apart, std::uint32_t extent) const;

  /// From `router` along dimension d until it is level with `last`; returns where it ends.
  template <class Use>
  std::uint32_t walk_ring(std::uint32_t router, std::uint32_t last, std::size_t d, Use use) const {
    const std::uint32_t extent = shape_.extents[d];
    std::uint32_t here = place_[std::size_t{router} * dimensions_ + d];
    const std::uint32_t there = place_[std::size_t{last} * dimensions_ + d];
    const std::uint32_t up = (there + extent - here) % extent;
    const bool upwards = shape_.open ? there >= here : 2 * up <= extent;
    for (std::uint32_t hops = upwards ? up : extent - up; hops > 0; --hops) {
      use((router * static_cast<std::uint32_t>(dimensions_) + static_cast<std::uint32_t>(d)) * 2 +
          (upwards ? 0U : 1U));
      const std::uint32_t next = upwards ? (here + 1) % extent : (here + extent - 1) % extent;
      router = router - here * stride_[d] + next * stride_[d];
      here = next;
    }
    return router;
  }

  TorusShape shape_;
  std::size_t dimensions_;
  std::uint32_t per_router_ = 1;
  NodeLinks below_; // the routers
  std::vector<std::uint32_t> stride_;
  std::vector<std::uint16_t> place_; // routers x dimensions
  std::vector<std::vector<double>> ring_cost_;
};

} // namespace toposeat
