// SPDX-License-Identifier: MIT OR Apache-2.0
#include "division/rank_graph.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace toposeat {
namespace {

/// Sorts one row by target and adds up what is given twice; returns the new end of the row.
std::size_t compress_row(std::vector<std::pair<std::uint32_t, double>> &row, RankGraph &graph) {
  std::sort(row.begin(), row.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i > 0 && row[i].first == row[i - 1].first) {
      graph.weight.back() += row[i].second;
    } else {
      graph.target.push_back(row[i].first);
      graph.weight.push_back(row[i].second);
    }
  }
  return graph.target.size();
}

} // namespace

RankGraph rank_graph(const RankTraffic &traffic, std::uint32_t vertices) {
  if (vertices < traffic.ranks)
    throw std::invalid_argument("fewer vertices than ranks");
  if (2 * traffic.flows.size() > std::numeric_limits<std::uint32_t>::max())
    throw std::invalid_argument("more pairs of ranks than 32 bits can number");
  std::vector<std::size_t> begin(vertices + std::size_t{1}, 0);
  for (const Flow &flow : traffic.flows) {
    if (flow.bytes > 0) {
      ++begin[flow.source + std::size_t{1}];
      ++begin[flow.target + std::size_t{1}];
    }
  }
  for (std::size_t v = 0; v < vertices; ++v)
    begin[v + 1] += begin[v];
  std::vector<std::pair<std::uint32_t, double>> arcs(begin.back());
  std::vector<std::size_t> next(begin.begin(), begin.end() - 1);
  for (const Flow &flow : traffic.flows) {
    if (flow.bytes > 0) {
      arcs[next[flow.source]++] = {flow.target, flow.bytes};
      arcs[next[flow.target]++] = {flow.source, flow.bytes};
    }
  }
  RankGraph graph;
  graph.begin.reserve(vertices + std::size_t{1});
  std::vector<std::pair<std::uint32_t, double>> row;
  for (std::size_t v = 0; v < vertices; ++v) {
    row.assign(arcs.begin() + static_cast<std::ptrdiff_t>(begin[v]),
               arcs.begin() + static_cast<std::ptrdiff_t>(begin[v + 1]));
    graph.begin.push_back(static_cast<std::uint32_t>(compress_row(row, graph)));
  }
  return graph;
}

} // namespace toposeat
