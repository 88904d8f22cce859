// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/machines/nodes_machine.hpp"

#include <numeric>
#include <stdexcept>
#include <utility>

#include "machines/machine_checks.hpp"

namespace toposeat {

NodesMachine::NodesMachine(std::vector<std::uint32_t> slots_of_node)
    : sizes_(std::move(slots_of_node)) {
  for (std::uint32_t node = 0; node < sizes_.size(); ++node) {
    if (sizes_[node] == 0 || sizes_[node] > most_slots - node_.size())
      throw std::invalid_argument("a node without slots, or too many slots");
    node_.insert(node_.end(), sizes_[node], node);
  }
  if (sizes_.empty())
    throw std::invalid_argument("a machine without nodes");
}

SlotTree NodesMachine::tree() const {
  std::vector<std::uint32_t> order(slots());
  std::iota(order.begin(), order.end(), 0U);
  return binary_tree(order, sizes_);
}

} // namespace toposeat
