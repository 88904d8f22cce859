// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/machines/grouped_machine.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "machines/machine_checks.hpp"

namespace toposeat {
namespace {

std::uint32_t side_of(const std::vector<double> &square) {
  const auto side =
      static_cast<std::uint32_t>(std::lround(std::sqrt(static_cast<double>(square.size()))));
  if (side == 0 || std::size_t{side} * side != square.size())
    throw std::invalid_argument("the distances of a node must be a square matrix");
  return side;
}

} // namespace

GroupedMachine::GroupedMachine(std::vector<std::vector<double>> within, std::vector<double> between)
    : within_(std::move(within)), between_(std::move(between)) {
  if (within_.empty() || between_.size() != within_.size() * within_.size())
    throw std::invalid_argument("the distances between nodes must be a nodes x nodes matrix");
  check_numbers(between_, 0, "a distance is");
  first_.push_back(0);
  for (std::uint32_t node = 0; node < within_.size(); ++node) {
    const std::uint32_t side = side_of(within_[node]);
    check_numbers(within_[node], 0, "a distance is");
    if (side > most_slots - first_.back())
      throw std::invalid_argument("too many slots");
    first_.push_back(first_.back() + side);
    node_.insert(node_.end(), side, node);
  }
}

SlotTree GroupedMachine::tree() const {
  std::vector<std::uint32_t> order;
  std::vector<std::uint32_t> sizes;
  for (const std::uint32_t node : nearness_order(between_, nodes())) {
    sizes.push_back(first_[node + std::size_t{1}] - first_[node]);
    for (const std::uint32_t local : nearness_order(within_[node], sizes.back()))
      order.push_back(first_[node] + local);
  }
  SlotTree tree = binary_tree(order, sizes);
  const std::size_t parts = tree.parts.size();
  for (std::size_t k = 0; k < parts; ++k) {
    const SlotTree::Part node = tree.parts[k];
    if (node.children > 0 || node.size() < 3)
      continue;
    // Halves of the node, whose own parts follow behind those of the other nodes.
    const SlotTree inner = binary_tree({}, std::vector<std::uint32_t>(node.size(), 1));
    const auto shift = static_cast<std::uint32_t>(tree.parts.size()) - 1;
    for (std::size_t p = 0; p < inner.parts.size(); ++p) {
      SlotTree::Part part = inner.parts[p];
      part.begin += node.begin;
      part.end += node.begin;
      part.first_child += part.children > 0 ? shift : 0;
      if (p == 0)
        tree.parts[k] = part;
      else
        tree.parts.push_back(part);
    }
  }
  return tree;
}

} // namespace toposeat
