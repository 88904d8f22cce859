// SPDX-License-Identifier: MIT OR Apache-2.0
#include "tiles.hpp"

#include <cstddef>

namespace toposeat::reorder {

std::vector<Flow> Grid::links() const {
  std::size_t cells = 1;
  for (const int extent : extents_)
    cells *= static_cast<std::size_t>(extent);
  std::vector<Flow> flows;
  flows.reserve(cells * extents_.size() * 2);
  std::size_t stride = cells;
  for (std::size_t d = 0; d < extents_.size(); ++d) {
    const std::size_t length = extent(d);
    stride /= length;
    for (std::size_t cell = 0; cell < cells; ++cell) {
      const std::size_t at = cell / stride % length;
      if (at + 1 == length && periods_[d] == 0)
        continue;
      const std::size_t next = at + 1 < length ? cell + stride : cell - at * stride;
      const auto one = static_cast<std::uint32_t>(cell);
      const auto other = static_cast<std::uint32_t>(next);
      flows.push_back({one, other, 1, 1});
      flows.push_back({other, one, 1, 1});
    }
  }
  return flows;
}

/// Cut links of one row along each dimension, over all rows.
double Grid::cut(const std::vector<std::uint32_t> &tile) const {
  double cells = 1;
  for (const int extent : extents_)
    cells *= extent;
  double sum = 0;
  for (std::size_t d = 0; d < tile.size(); ++d) {
    const std::uint32_t tiles = extent(d) / tile[d];
    const std::uint32_t wraps = periods_[d] != 0 && tiles > 1 ? 1 : 0;
    sum += cells / extents_[d] * (tiles - 1 + wraps);
  }
  return sum;
}

void Grid::try_tiles(std::size_t dimension, std::uint32_t left, std::vector<std::uint32_t> &tile,
                     std::vector<std::uint32_t> &best, double &least) const {
  if (dimension == tile.size()) {
    const double here = left == 1 ? cut(tile) : least;
    if (here < least) {
      least = here;
      best = tile;
    }
    return;
  }
  for (std::uint32_t length = 1; length <= left && length <= extent(dimension); ++length) {
    if (left % length == 0 && extent(dimension) % length == 0) {
      tile[dimension] = length;
      try_tiles(dimension + 1, left / length, tile, best, least);
    }
  }
}

std::vector<std::uint32_t> Grid::best_tiles(std::uint32_t cells) const {
  std::vector<std::uint32_t> tile(extents_.size());
  std::vector<std::uint32_t> best;
  double least = unlimited;
  try_tiles(0, cells, tile, best, least);
  std::vector<std::uint32_t> of_cell;
  if (best.empty())
    return of_cell;
  std::size_t count = 1;
  for (const int extent : extents_)
    count *= static_cast<std::size_t>(extent);
  of_cell.resize(count);
  for (std::size_t cell = 0; cell < count; ++cell) {
    std::size_t stride = count;
    std::size_t number = 0;
    for (std::size_t d = 0; d < best.size(); ++d) {
      stride /= extent(d);
      number = number * (extent(d) / best[d]) + cell / stride % extent(d) / best[d];
    }
    of_cell[cell] = static_cast<std::uint32_t>(number);
  }
  return of_cell;
}

} // namespace toposeat::reorder
