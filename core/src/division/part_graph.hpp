// A piece of the rank graph that is being divided, with vertices that stand for several ranks.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace toposeat {

/// Compressed rows as in RankGraph. `size[v]` ranks are behind vertex v. Single precision: sums of
/// a row's weights are compared, never reported.
struct PartGraph {
  std::vector<std::uint32_t> begin{0};
  std::vector<std::uint32_t> target;
  std::vector<float> weight;
  std::vector<std::uint32_t> size;

  [[nodiscard]] std::uint32_t vertices() const {
    return static_cast<std::uint32_t>(begin.size() - 1);
  }
  [[nodiscard]] std::uint32_t ranks() const {
    return std::accumulate(size.begin(), size.end(), 0U);
  }
};

/// Weight between different blocks, each edge counted from both ends.
inline double cut_of(const PartGraph &graph, const std::vector<std::uint32_t> &block) {
  double cut = 0;
  for (std::uint32_t v = 0; v < graph.vertices(); ++v) {
    for (std::uint32_t e = graph.begin[v]; e < graph.begin[v + 1]; ++e)
      cut += block[v] != block[graph.target[e]] ? graph.weight[e] : 0;
  }
  return cut;
}

/// The same as a share of all weight; 0 if there is none.
inline float share_cut(const PartGraph &graph, const std::vector<std::uint32_t> &block) {
  const double all = std::accumulate(graph.weight.begin(), graph.weight.end(), 0.0);
  return all > 0 ? static_cast<float>(cut_of(graph, block) / all) : 0;
}

/// 0 or 1 for each vertex.
using Sides = std::vector<std::uint8_t>;

/// How many ranks may be on side 0.
struct SizeRange {
  std::uint32_t least = 0;
  std::uint32_t most = 0;

  /// Ranks by which `size` misses the range.
  [[nodiscard]] std::uint32_t missed_by(std::uint32_t size) const {
    return size < least ? least - size : size > most ? size - most : 0;
  }
};

} // namespace toposeat
