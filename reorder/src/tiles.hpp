// Grids cut into equal boxes, a box for each node.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "mapping.h"
#include "toposeat/problem/network.hpp"

namespace toposeat::reorder {

class Grid {
public:
  explicit Grid(const tpr_grid &grid)
      : extents_(grid.extents, grid.extents + grid.dimensions),
        periods_(grid.periods, grid.periods + grid.dimensions) {}

  /// One flow of weight 1 for each neighbour of each cell, as MPI_Cart_shift finds them.
  [[nodiscard]] std::vector<Flow> links() const;

  /// The box of each cell, boxes of `cells` cells that cut the fewest links, numbered row-major; of
  /// equal ones that with the longest rows. Empty: no box of that size divides the grid.
  [[nodiscard]] std::vector<std::uint32_t> best_tiles(std::uint32_t cells) const;

private:
  [[nodiscard]] double cut(const std::vector<std::uint32_t> &tile) const;
  void try_tiles(std::size_t dimension, std::uint32_t left, std::vector<std::uint32_t> &tile,
                 std::vector<std::uint32_t> &best, double &least) const;
  [[nodiscard]] std::uint32_t extent(std::size_t d) const {
    return static_cast<std::uint32_t>(extents_[d]);
  }

  std::vector<int> extents_;
  std::vector<int> periods_;
};

} // namespace toposeat::reorder
