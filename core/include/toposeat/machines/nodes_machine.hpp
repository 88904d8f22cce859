// Nodes of any sizes, and only whether two slots are on one of them counts.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "toposeat/machines/slot_tree.hpp"

namespace toposeat {

/// Slots are numbered node by node; two of them are 1 apart on two nodes, and 0 on one.
class NodesMachine {
public:
  /// Throws std::invalid_argument on no nodes, one without slots, or more than `most_slots` slots.
  explicit NodesMachine(std::vector<std::uint32_t> slots_of_node);

  [[nodiscard]] std::uint32_t slots() const { return static_cast<std::uint32_t>(node_.size()); }
  [[nodiscard]] std::uint32_t nodes() const { return static_cast<std::uint32_t>(sizes_.size()); }
  [[nodiscard]] double distance(std::uint32_t a, std::uint32_t b) const {
    return node_[a] == node_[b] ? 0 : 1;
  }
  [[nodiscard]] SlotTree tree() const;

private:
  std::vector<std::uint32_t> sizes_;
  std::vector<std::uint32_t> node_; // of each slot
};

} // namespace toposeat
