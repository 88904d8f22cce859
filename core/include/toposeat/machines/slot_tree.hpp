// A machine cut into nested parts, for mappers that divide it and the ranks together.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace toposeat {

/// Part k holds the slots `order[parts[k].begin .. parts[k].end)`; part 0 is the whole machine. The
/// children of a part stand in a row, in slot order, and cover it. A part without children is not
/// worth dividing: its slots are equally far from each other and from everything else.
struct SlotTree {
  struct Part {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    std::uint32_t first_child = 0;
    std::uint32_t children = 0;

    [[nodiscard]] std::uint32_t size() const { return end - begin; }
  };

  std::vector<std::uint32_t> order;
  std::vector<Part> parts;
};

/// Slots 0..n-1 in order, in groups of groups: `arities` from the leaf level up (4:8:m is 4 slots
/// per group, 8 groups per node, m nodes).
[[nodiscard]] SlotTree nested_tree(const std::vector<std::uint32_t> &arities);

/// Halves of halves along the dimension whose crossing costs most, of a grid of equal nodes with
/// `slots` slots each; the first dimension varies slowest. `extents` times `slots` is the size.
/// `step_cost[d]` is the cost of one step along dimension d.
[[nodiscard]] SlotTree grid_tree(const std::vector<std::uint32_t> &extents,
                                 const std::vector<double> &step_cost, std::uint32_t slots);

/// `count` slots of a tree, spread evenly over its order; parts without any of them are left out.
[[nodiscard]] SlotTree thinned(const SlotTree &tree, std::uint32_t count);

/// Gives each part without children `groups` children of equal size (which must divide it).
void split_leaves(SlotTree &tree, std::uint32_t groups);

/// Halves of halves of `n` things with the given n x n distances (row-major), such that what is
/// near stays together: the two that are farthest apart gather the others. Returns the order.
[[nodiscard]] std::vector<std::uint32_t> nearness_order(const std::vector<double> &distance,
                                                        std::uint32_t n);

/// Parts of a binary tree over consecutive units of the given sizes, halved by number of units.
[[nodiscard]] SlotTree binary_tree(const std::vector<std::uint32_t> &order,
                                   const std::vector<std::uint32_t> &unit_sizes);

} // namespace toposeat
