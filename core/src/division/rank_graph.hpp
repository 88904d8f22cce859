// The traffic of a large job as an undirected weighted graph in compressed rows.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "toposeat/problem/network.hpp"

namespace toposeat {

/// Vertex v's neighbours are `target[begin[v] .. begin[v + 1])`, each edge stored at both ends with
/// the same weight: the bytes of both directions together. Memory grows with edges, never with
/// vertices squared.
struct RankGraph {
  std::vector<std::uint32_t> begin{0};
  std::vector<std::uint32_t> target;
  std::vector<double> weight;

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(begin.size() - 1); }
  [[nodiscard]] std::span<const double> weights(std::uint32_t v) const {
    return std::span(weight).subspan(begin[v], begin[v + 1] - begin[v]);
  }
};

/// Both directions of each pair added up; flows without bytes leave no edge. Vertices beyond
/// `traffic.ranks` are idle: they stand for slots that no rank needs.
///
/// Throws std::invalid_argument if there are fewer vertices than ranks, or too many edges for 32
/// bits.
[[nodiscard]] RankGraph rank_graph(const RankTraffic &traffic, std::uint32_t vertices);

} // namespace toposeat
