// Any machine of several nodes, reduced to nodes: distances within each, one between each two.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "toposeat/machines/slot_tree.hpp"

namespace toposeat {

/// Slots are numbered node by node. `between` is nodes x nodes, `within[k]` is the square matrix of
/// node k's slots; both row-major, symmetric use. Memory grows with nodes squared and with the
/// nodes' own sizes, not with slots squared.
class GroupedMachine {
public:
  /// Throws std::invalid_argument unless the matrices fit and hold finite numbers >= 0.
  GroupedMachine(std::vector<std::vector<double>> within, std::vector<double> between);

  [[nodiscard]] std::uint32_t slots() const { return static_cast<std::uint32_t>(node_.size()); }
  [[nodiscard]] std::uint32_t nodes() const { return static_cast<std::uint32_t>(within_.size()); }
  [[nodiscard]] std::uint32_t node_of(std::uint32_t slot) const { return node_[slot]; }
  [[nodiscard]] double distance(std::uint32_t a, std::uint32_t b) const {
    const std::uint32_t from = node_[a];
    const std::uint32_t to = node_[b];
    if (from != to)
      return between_[std::size_t{from} * within_.size() + to];
    const std::uint32_t first = first_[from];
    const std::uint32_t size = first_[from + std::size_t{1}] - first;
    return within_[from][std::size_t{a - first} * size + (b - first)];
  }
  [[nodiscard]] SlotTree tree() const;

private:
  std::vector<std::vector<double>> within_;
  std::vector<double> between_;
  std::vector<std::uint32_t> first_; // slot of each node, and the end
  std::vector<std::uint32_t> node_;  // of each slot
};

} // namespace toposeat
