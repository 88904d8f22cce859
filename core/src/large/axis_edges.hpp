// Which edges of a stencil's graph run along one dimension of its grid.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "toposeat/division/rank_graph.hpp"

namespace toposeat {

/// Some edges of a RankGraph, without their weights; both ends of an edge are there.
struct AxisGraph {
  std::vector<std::uint32_t> begin{0};
  std::vector<std::uint32_t> target;

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(begin.size() - 1); }
  [[nodiscard]] std::span<const std::uint32_t> neighbours(std::uint32_t v) const {
    return std::span(target).subspan(begin[v], begin[v + 1] - begin[v]);
  }
};

constexpr std::uint32_t most_grid_dimensions = 4;

/// Candidates, the likeliest first: the edges of at least each weight that occurs, where only a
/// few do (faces weigh more than edges and corners), and the Cartesian skeleton of the graph
/// (Hammack, Imrich 2009), which needs no weights. Only connected ones in which no rank has more
/// neighbours than a grid gives it.
std::vector<AxisGraph> axis_graphs(const RankGraph &graph);

} // namespace toposeat
