// Recovering the process grid behind ranks that are numbered in no order.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "toposeat/division/rank_graph.hpp"

namespace toposeat {

/// `place[r]` is rank r's number in the row-major grid of these extents; no place twice, none left.
struct HiddenGrid {
  std::vector<std::uint32_t> extents;
  std::vector<std::uint32_t> place;
};

/// The grid whose neighbours talk, found from the graph alone: edges along one dimension are the
/// opposite sides of squares, edges that share no square go on in a line. Exact for the product of
/// chains and rings (up to four; a ring of four counts as two dimensions), with or without the
/// diagonals of a stencil; nothing if a rank or an edge along a dimension is missing, or if
/// all edges weigh the same and some dimension is only two ranks long. Time grows with the edges.
std::optional<HiddenGrid> hidden_grid(const RankGraph &graph);

} // namespace toposeat
