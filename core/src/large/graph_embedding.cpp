// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "toposeat/large/process_grid.hpp"

namespace toposeat {
namespace {

constexpr std::size_t pivots = 10;
constexpr std::size_t axes = 3;
constexpr int power_steps = 60;
constexpr std::uint32_t unreached = 0xffffffffU;

using Row = std::array<double, pivots>;
using Square = std::array<Row, pivots>;

/// Hops from `source` to every rank; unreached ones one further than the farthest.
std::vector<std::uint32_t> hops_from(const RankGraph &graph, std::uint32_t source) {
  std::vector<std::uint32_t> hops(graph.size(), unreached);
  std::vector<std::uint32_t> queue{source};
  hops[source] = 0;
  for (std::size_t i = 0; i < queue.size(); ++i) { // grows on the way
    for (const std::uint32_t u : graph.neighbours(queue[i])) {
      if (hops[u] == unreached) {
        hops[u] = hops[queue[i]] + 1;
        queue.push_back(u);
      }
    }
  }
  const std::uint32_t beyond = hops[queue.back()] + 1;
  std::replace(hops.begin(), hops.end(), unreached, beyond);
  return hops;
}

/// Hops from pivots each of which is as far from the others as can be; row by row per rank,
/// centred.
std::vector<float> pivot_distances(const RankGraph &graph) {
  const std::size_t n = graph.size();
  std::vector<float> table(n * pivots);
  std::vector<std::uint32_t> nearest(n, unreached);
  std::uint32_t pivot = 0;
  for (std::size_t p = 0; p < pivots; ++p) {
    const std::vector<std::uint32_t> hops = hops_from(graph, pivot);
    double mean = 0;
    for (const std::uint32_t each : hops)
      mean += each / static_cast<double>(n);
    for (std::size_t r = 0; r < n; ++r) {
      table[r * pivots + p] = static_cast<float>(hops[r] - mean);
      nearest[r] = std::min(nearest[r], hops[r]);
    }
    const auto farthest = std::max_element(nearest.begin(), nearest.end());
    pivot = static_cast<std::uint32_t>(farthest - nearest.begin());
  }
  return table;
}

Square covariance(const std::vector<float> &table) {
  Square result{};
  for (std::size_t r = 0; r < table.size(); r += pivots) {
    for (std::size_t i = 0; i < pivots; ++i) {
      for (std::size_t j = 0; j < pivots; ++j)
        result[i][j] += static_cast<double>(table[r + i]) * table[r + j];
    }
  }
  return result;
}

/// The largest principal axis, which is then taken out of the matrix.
Row principal_axis(Square &matrix) {
  Row axis;
  for (std::size_t i = 0; i < pivots; ++i)
    axis[i] = 1 + 0.1 * static_cast<double>(i); // not orthogonal to anything likely
  double length = 0;
  for (int step = 0; step < power_steps; ++step) {
    Row next{};
    for (std::size_t i = 0; i < pivots; ++i) {
      for (std::size_t j = 0; j < pivots; ++j)
        next[i] += matrix[i][j] * axis[j];
    }
    length = 0;
    for (const double each : next)
      length += each * each;
    length = std::sqrt(length);
    if (!(length > 0))
      return Row{};
    for (std::size_t i = 0; i < pivots; ++i)
      axis[i] = next[i] / length;
  }
  for (std::size_t i = 0; i < pivots; ++i) {
    for (std::size_t j = 0; j < pivots; ++j)
      matrix[i][j] -= length * axis[i] * axis[j];
  }
  return axis;
}

} // namespace

Coordinates embedded_coordinates(const RankGraph &graph) {
  Coordinates result{axes, std::vector<float>(graph.size() * axes, 0)};
  if (graph.size() == 0)
    return result;
  const std::vector<float> table = pivot_distances(graph);
  Square matrix = covariance(table);
  for (std::size_t d = 0; d < axes; ++d) {
    const Row axis = principal_axis(matrix);
    for (std::size_t r = 0; r < graph.size(); ++r) {
      double sum = 0;
      for (std::size_t p = 0; p < pivots; ++p)
        sum += axis[p] * table[r * pivots + p];
      result.values[r * axes + d] = static_cast<float>(sum);
    }
  }
  return result;
}

} // namespace toposeat
