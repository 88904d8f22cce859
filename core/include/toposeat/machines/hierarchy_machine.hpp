// A machine of groups of groups: racks of nodes of devices, and fat trees.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "toposeat/machines/slot_tree.hpp"

namespace toposeat {

/// `arities` from the leaf level up: 4:8:m is 4 slots per group, 8 groups per node, m nodes.
/// Two slots whose smallest common unit is of level k (0: a group of `arities[0]` slots) are
/// `costs[k]` apart. Every unit below the root has one uplink per direction: a slot
/// `bandwidths[0]` bytes/s, a group of slots `bandwidths[1]`, and so on. A message between two
/// slots whose common unit has level k takes `latencies[k]` seconds.
class HierarchyMachine {
public:
  /// Throws std::invalid_argument on empty or zero arities, more than `most_slots`, lists of other
  /// lengths, costs that fall from one level to the next, or numbers that are not finite.
  HierarchyMachine(std::vector<std::uint32_t> arities, const std::vector<double> &costs,
                   std::vector<double> bandwidths, std::vector<double> latencies);

  [[nodiscard]] std::uint32_t slots() const { return static_cast<std::uint32_t>(code_.size()); }
  [[nodiscard]] double distance(std::uint32_t a, std::uint32_t b) const {
    return cost_of_width_[static_cast<std::size_t>(std::bit_width(code_[a] ^ code_[b]))];
  }
  [[nodiscard]] SlotTree tree() const { return nested_tree(arities_); }
  [[nodiscard]] const std::vector<std::uint32_t> &arities() const { return arities_; }
  [[nodiscard]] const std::vector<double> &costs() const { return costs_; }

  [[nodiscard]] double latency(std::uint32_t a, std::uint32_t b) const;
  [[nodiscard]] std::uint32_t links() const { return first_link_.back(); }
  [[nodiscard]] double capacity(std::uint32_t link) const;
  [[nodiscard]] std::string link_name(std::uint32_t link) const;

  /// Calls `use(link)` for each link from slot a to another slot b.
  template <class Use> void route(std::uint32_t a, std::uint32_t b, Use use) const {
    for (std::size_t level = 0; a != b; ++level) {
      use(first_link_[level] + 2 * a);
      use(first_link_[level] + 2 * b + 1);
      a /= arities_[level];
      b /= arities_[level];
    }
  }

private:
  [[nodiscard]] std::size_t level_of_link(std::uint32_t link) const;

  std::vector<std::uint32_t> arities_;
  std::vector<double> costs_;
  std::vector<double> bandwidths_;
  std::vector<double> latencies_;
  std::vector<std::uint32_t> code_;        // position in each level, one field of bits per level
  std::array<double, 33> cost_of_width_{}; // by the highest bit in which two codes differ
  std::vector<std::uint32_t> first_link_;  // of each level, and the end
};

} // namespace toposeat
