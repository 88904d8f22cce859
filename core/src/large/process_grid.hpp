// Recognising the process grid behind a job's traffic.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "division/rank_graph.hpp"
#include "toposeat/base/deadline.hpp"

namespace toposeat {

/// Row-major process grid: the first dimension varies slowest. `pull[d]` is the weight of the edges
/// along dimension d, diagonal ones counted in each dimension that they cross.
struct ProcessGrid {
  std::vector<std::uint32_t> extents;
  std::vector<double> pull;
  bool wraps = false; // some edges join the two ends of a dimension
  bool full = false;  // most steps along every dimension are edges: the ranks are surely this grid
};

/// The grid of two to four dimensions in which nearly all the traffic (95 % by weight) is between
/// neighbours, diagonal ones included; the one with the shortest edges if there are several. None
/// in which every pair is one of neighbours (extents of 2 and 3).
/// Nothing if the ranks show no such order. At the deadline the best of those judged so far.
std::optional<ProcessGrid> recognise_grid(const RankGraph &graph, const Deadline &deadline);

/// Coordinates for recursive bisection: `dimensions` numbers per rank, those of a rank in a row.
struct Coordinates {
  std::size_t dimensions = 0;
  std::vector<float> values;

  [[nodiscard]] float at(std::uint32_t rank, std::size_t d) const {
    return values[rank * dimensions + d];
  }
};

Coordinates grid_coordinates(const ProcessGrid &grid, std::uint32_t ranks);

} // namespace toposeat
