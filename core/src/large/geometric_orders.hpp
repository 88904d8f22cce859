// Placements that follow from where ranks lie, not from a search: curves, blocks, coordinates.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "large/process_grid.hpp"
#include "toposeat/machines/slot_tree.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

/// Ranks along a Hilbert curve (Skilling, AIP Conf. Proc. 707, 2004) through the grid's bounding
/// cube: rank_order[i] is the i-th rank on the curve.
std::vector<std::uint32_t> hilbert_order(const ProcessGrid &grid);

/// Ranks along the Z curve (Morton) through the grid.
std::vector<std::uint32_t> morton_order(const ProcessGrid &grid);

/// Ranks block by block: blocks of `block_extents` in row-major order, row-major inside. Extents
/// that do not divide the grid leave smaller blocks at its end.
std::vector<std::uint32_t> block_order(const ProcessGrid &grid,
                                       const std::vector<std::vector<std::uint32_t>> &nested);

/// Nested block extents for groups of `arities` (from the leaf level up), which divide the grid
/// evenly and have the least weighted surface; empty if no blocks divide it.
std::vector<std::vector<std::uint32_t>> best_blocks(const ProcessGrid &grid,
                                                    const std::vector<std::uint32_t> &arities,
                                                    const std::vector<double> &level_costs);

/// Slots for ranks in an order: the i-th rank gets slot `slots[i]`.
Assignment along(const std::vector<std::uint32_t> &rank_order,
                 const std::vector<std::uint32_t> &slots);

/// Recursive coordinate bisection of the ranks along a slot tree: each time the longest dimension
/// (stretched by `stretch[d]`) is cut so that the halves of the machine are filled. Ranks that fit
/// into the first half go there.
Assignment coordinate_bisection(const Coordinates &coordinates, const SlotTree &tree,
                                const std::vector<double> &stretch);

} // namespace toposeat
