// The links below the routers of a large machine: of each slot to its node, of each node to its
// router.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace toposeat {

/// Out of and into each slot, then out of and into each node, numbered from `first` on.
struct NodeLinks {
  std::uint32_t first = 0;
  std::uint32_t slots = 0;
  std::uint32_t nodes = 0;

  [[nodiscard]] std::uint32_t end() const { return first + 2 * (slots + nodes); }
  [[nodiscard]] bool of_slot(std::uint32_t link) const { return link - first < 2 * slots; }
  /// Of a link that is one of these: "slot 3 out", "node 0 in".
  [[nodiscard]] std::string name(std::uint32_t link) const {
    const std::uint32_t within = (link - first) / 2;
    const std::string unit = within < slots ? "slot " + std::to_string(within)
                                            : "node " + std::to_string(within - slots);
    return unit + ((link - first) % 2 == 0 ? " out" : " in");
  }

  /// Calls `use(link)` for those that lead from slot a to another slot b. Returns whether the route
  /// leaves the node.
  template <class Use> bool cross(std::uint32_t a, std::uint32_t b, Use use) const {
    const std::uint32_t node_a = a / (slots / nodes);
    const std::uint32_t node_b = b / (slots / nodes);
    use(first + 2 * a);
    use(first + 2 * b + 1);
    if (node_a == node_b)
      return false;
    use(first + 2 * (slots + node_a));
    use(first + 2 * (slots + node_b) + 1);
    return true;
  }
};

} // namespace toposeat
