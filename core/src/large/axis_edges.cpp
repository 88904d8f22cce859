// SPDX-License-Identifier: MIT OR Apache-2.0
#include "large/axis_edges.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

namespace toposeat {
namespace {

constexpr std::uint32_t most_axis_neighbours = 2 * most_grid_dimensions;
constexpr std::uint32_t most_neighbours = 80; // 3^4 - 1: a full stencil of four dimensions
constexpr std::size_t most_weights = 12;      // more of them tell nothing about a dimension
constexpr std::uint32_t none = 0xffffffffU;

bool connected(const AxisGraph &graph) {
  std::vector<std::uint8_t> seen(graph.size(), 0);
  std::vector<std::uint32_t> queue{0};
  seen[0] = 1;
  for (std::size_t i = 0; i < queue.size(); ++i) { // grows on the way
    for (const std::uint32_t u : graph.neighbours(queue[i])) {
      if (seen[u] == 0) {
        seen[u] = 1;
        queue.push_back(u);
      }
    }
  }
  return queue.size() == graph.size();
}

/// The arcs that `keep` accepts by their index, or nothing if these are no grid's.
std::optional<AxisGraph> chosen(const RankGraph &graph,
                                const std::function<bool(std::uint32_t)> &keep) {
  AxisGraph result;
  for (std::uint32_t v = 0; v < graph.size(); ++v) {
    for (std::uint32_t e = graph.begin[v]; e < graph.begin[v + std::size_t{1}]; ++e) {
      if (keep(e))
        result.target.push_back(graph.target[e]);
    }
    const auto end = static_cast<std::uint32_t>(result.target.size());
    if (end - result.begin.back() > most_axis_neighbours)
      return std::nullopt;
    result.begin.push_back(end);
  }
  if (!connected(result))
    return std::nullopt;
  return result;
}

/// The weights that occur, heaviest first; none if there are too many.
std::vector<double> few_weights(const RankGraph &graph) {
  std::set<double, std::greater<>> weights;
  for (const double weight : graph.weight) {
    weights.insert(weight);
    if (weights.size() > most_weights)
      return {};
  }
  return {weights.begin(), weights.end()};
}

/// Counts the closed neighbourhoods' common members. In a full stencil these are as telling as
/// the sets themselves.
class Skeleton {
public:
  explicit Skeleton(const RankGraph &graph)
      : graph_(graph), arc_to_(graph.size(), none), common_(graph.target.size(), 2),
        dispensable_(graph.target.size(), 0) {
    each_triangle(
        [&](std::uint32_t, std::uint32_t uv, std::uint32_t, std::uint32_t) { ++common_[uv]; });
    each_triangle([&](std::uint32_t u, std::uint32_t uv, std::uint32_t uw, std::uint32_t vw) {
      const std::uint32_t v = graph_.target[uv];
      const std::uint32_t w = graph_.target[uw];
      const bool first =
          common_[uv] < common_[uw] || (degree(u) < degree(w) && degree(w) < degree(v));
      const bool second =
          common_[uv] < common_[vw] || (degree(v) < degree(w) && degree(w) < degree(u));
      if (first && second)
        dispensable_[uv] = 1;
    });
  }

  [[nodiscard]] bool keeps(std::uint32_t arc) const { return dispensable_[arc] == 0; }

private:
  [[nodiscard]] std::uint32_t degree(std::uint32_t v) const {
    return graph_.begin[v + std::size_t{1}] - graph_.begin[v];
  }

  /// u and the arcs u-v, u-w and v-w of every triangle, in every order of its corners.
  template <class Visit> void each_triangle(const Visit &visit) {
    for (std::uint32_t u = 0; u < graph_.size(); ++u) {
      for (std::uint32_t e = graph_.begin[u]; e < graph_.begin[u + std::size_t{1}]; ++e)
        arc_to_[graph_.target[e]] = e;
      for (std::uint32_t e = graph_.begin[u]; e < graph_.begin[u + std::size_t{1}]; ++e) {
        const std::uint32_t v = graph_.target[e];
        for (std::uint32_t f = graph_.begin[v]; f < graph_.begin[v + std::size_t{1}]; ++f) {
          if (arc_to_[graph_.target[f]] != none)
            visit(u, e, arc_to_[graph_.target[f]], f);
        }
      }
      for (const std::uint32_t v : graph_.neighbours(u))
        arc_to_[v] = none;
    }
  }

  const RankGraph &graph_;
  std::vector<std::uint32_t> arc_to_; // of the rank that is being looked at
  std::vector<std::uint32_t> common_; // of each arc
  std::vector<std::uint8_t> dispensable_;
};

std::uint32_t most_neighbours_of(const RankGraph &graph) {
  std::uint32_t most = 0;
  for (std::uint32_t v = 0; v < graph.size(); ++v)
    most = std::max(most, graph.begin[v + std::size_t{1}] - graph.begin[v]);
  return most;
}

} // namespace

std::vector<AxisGraph> axis_graphs(const RankGraph &graph) {
  std::vector<AxisGraph> result;
  if (graph.size() < 2 || most_neighbours_of(graph) > most_neighbours)
    return result;
  const auto take = [&](std::optional<AxisGraph> each) {
    if (each)
      result.push_back(std::move(*each));
  };
  for (const double least : few_weights(graph))
    take(chosen(graph, [&](std::uint32_t e) { return graph.weight[e] >= least; }));
  const Skeleton skeleton(graph);
  take(chosen(graph, [&](std::uint32_t e) { return skeleton.keeps(e); }));
  return result;
}

} // namespace toposeat
