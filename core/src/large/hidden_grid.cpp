// SPDX-License-Identifier: MIT OR Apache-2.0
#include "large/hidden_grid.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "toposeat/division/rank_graph.hpp"

namespace toposeat {
namespace {

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

constexpr std::uint32_t most_axis_neighbours = 2 * most_grid_dimensions;
constexpr std::uint32_t most_neighbours = 80; // 3^4 - 1: a full stencil of four dimensions
constexpr std::size_t most_weights = 12;      // more of them tell nothing about a dimension
constexpr std::uint32_t none = 0xffffffffU;

bool connected(const AxisGraph &graph) {
  std::vector<std::uint8_t> seen(graph.size(), 0);
  std::vector<std::uint32_t> queue{0};
  seen[0] = 1;
  for (std::size_t i = 0; i < queue.size(); ++i) { // grows meanwhile
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

/// Candidates, the likeliest first: the edges of at least each weight that occurs, where only a
/// few do (faces weigh more than edges and corners), and the Cartesian skeleton of the graph
/// (Hammack, Imrich 2009), which needs no weights. Only connected ones in which no rank has more
/// neighbours than a grid gives it.
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

class DisjointSets {
public:
  explicit DisjointSets(std::size_t size) : parent_(size) {
    std::iota(parent_.begin(), parent_.end(), 0U);
  }
  std::uint32_t find(std::uint32_t x) {
    while (parent_[x] != x)
      x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  void unite(std::uint32_t a, std::uint32_t b) {
    a = find(a);
    b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

private:
  std::vector<std::uint32_t> parent_;
};

/// Which dimension each arc runs along.
class Dimensions {
public:
  explicit Dimensions(const AxisGraph &graph) : graph_(graph), same_(graph.target.size()) {
    for (std::uint32_t u = 0; u < graph.size(); ++u) {
      for (const std::uint32_t v : graph.neighbours(u))
        same_.unite(arc(u, v), arc(v, u));
    }
    for (std::uint32_t u = 0; u < graph.size(); ++u)
      unite_around(u);
  }

  /// One arc for each dimension; nothing if there are too many.
  std::vector<std::uint32_t> all() {
    std::vector<std::uint32_t> roots;
    for (std::uint32_t e = 0; e < graph_.target.size(); ++e) {
      if (same_.find(e) == e)
        roots.push_back(e);
      if (roots.size() > most_grid_dimensions)
        return {};
    }
    return roots;
  }

  std::uint32_t of(std::uint32_t arc) { return same_.find(arc); }

private:
  [[nodiscard]] std::uint32_t arc(std::uint32_t from, std::uint32_t to) const {
    for (std::uint32_t e = graph_.begin[from]; e < graph_.begin[from + std::size_t{1}]; ++e) {
      if (graph_.target[e] == to)
        return e;
    }
    return none;
  }

  /// Two edges of u are neighbouring sides of a square, or one is the other's continuation.
  void unite_around(std::uint32_t u) {
    const auto near = graph_.neighbours(u);
    for (std::size_t i = 0; i < near.size(); ++i) {
      for (std::size_t j = i + 1; j < near.size(); ++j) {
        const std::uint32_t v = near[i];
        const std::uint32_t w = near[j];
        const std::uint32_t corner = opposite(u, v, w);
        if (corner == none || arc(v, w) != none) { // a triangle is a ring of three
          same_.unite(arc(u, v), arc(u, w));
        } else {
          same_.unite(arc(u, v), arc(w, corner));
          same_.unite(arc(u, w), arc(v, corner));
        }
      }
    }
  }

  /// The fourth corner of the square u, v, w.
  [[nodiscard]] std::uint32_t opposite(std::uint32_t u, std::uint32_t v, std::uint32_t w) const {
    for (const std::uint32_t corner : graph_.neighbours(v)) {
      if (corner != u && arc(corner, w) != none)
        return corner;
    }
    return none;
  }

  const AxisGraph &graph_;
  DisjointSets same_;
};

/// How far each rank is along one dimension: ranks that edges of other dimensions join are one
/// layer, and the layers are one chain or ring.
class Layers {
public:
  Layers(const AxisGraph &graph, Dimensions &dimensions, std::uint32_t dimension)
      : layer_of_(graph.size(), none) {
    for (std::uint32_t v = 0; v < graph.size(); ++v) {
      if (layer_of_[v] == none)
        flood(graph, dimensions, dimension, v);
    }
    next_.assign(count_, {none, none});
    for (std::uint32_t v = 0; v < graph.size() && chain_; ++v) {
      for (std::uint32_t e = graph.begin[v]; e < graph.begin[v + std::size_t{1}]; ++e) {
        if (dimensions.of(e) == dimension)
          join(layer_of_[v], layer_of_[graph.target[e]]);
      }
    }
  }

  /// Numbers the layers from one end to the other; nothing if they are no chain.
  std::optional<std::vector<std::uint32_t>> coordinates() const {
    if (!chain_)
      return std::nullopt;
    std::uint32_t at = 0;
    for (std::uint32_t layer = 0; layer < count_; ++layer)
      at = next_[layer].second == none && next_[at].second != none ? layer : at;
    std::vector<std::uint32_t> number(count_, none);
    for (std::uint32_t i = 0; at != none; ++i) {
      number[at] = i;
      const auto [a, b] = next_[at];
      if (a != none && number[a] == none) {
        at = a;
      } else {
        at = b != none && number[b] == none ? b : none;
      }
    }
    std::vector<std::uint32_t> result(layer_of_.size());
    for (std::size_t v = 0; v < result.size(); ++v) {
      result[v] = number[layer_of_[v]];
      if (result[v] == none)
        return std::nullopt;
    }
    return result;
  }

  [[nodiscard]] std::uint32_t count() const { return count_; }

private:
  void flood(const AxisGraph &graph, Dimensions &dimensions, std::uint32_t dimension,
             std::uint32_t from) {
    std::vector<std::uint32_t> queue{from};
    layer_of_[from] = count_;
    while (!queue.empty()) {
      const std::uint32_t v = queue.back();
      queue.pop_back();
      for (std::uint32_t e = graph.begin[v]; e < graph.begin[v + std::size_t{1}]; ++e) {
        const std::uint32_t u = graph.target[e];
        if (layer_of_[u] != none || dimensions.of(e) == dimension)
          continue;
        layer_of_[u] = count_;
        queue.push_back(u);
      }
    }
    ++count_;
  }

  void join(std::uint32_t here, std::uint32_t there) {
    auto &[a, b] = next_[here];
    if (here == there || a == there || b == there) {
      chain_ = chain_ && here != there;
    } else if (a == none) {
      a = there;
    } else {
      chain_ = b == none;
      b = there;
    }
  }

  std::vector<std::uint32_t> layer_of_;
  std::uint32_t count_ = 0;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> next_; // up to two layers beside each
  bool chain_ = true;
};

struct Axis {
  std::uint32_t extent;
  std::vector<std::uint32_t> coordinate;
};

std::optional<std::vector<Axis>> axes_of(const AxisGraph &graph) {
  Dimensions dimensions(graph);
  std::vector<Axis> axes;
  std::uint64_t places = 1;
  for (const std::uint32_t dimension : dimensions.all()) {
    const Layers layers(graph, dimensions, dimension);
    auto coordinate = layers.coordinates();
    places *= layers.count();
    if (!coordinate || places > graph.size())
      return std::nullopt;
    axes.push_back({layers.count(), std::move(*coordinate)});
  }
  if (places != graph.size())
    return std::nullopt;
  std::sort(axes.begin(), axes.end(), [](const Axis &a, const Axis &b) {
    return a.extent != b.extent ? a.extent > b.extent : a.coordinate < b.coordinate;
  });
  return axes;
}

std::optional<HiddenGrid> grid_of(const AxisGraph &graph) {
  const auto axes = axes_of(graph);
  if (!axes)
    return std::nullopt;
  HiddenGrid grid{{}, std::vector<std::uint32_t>(graph.size(), 0)};
  for (const Axis &axis : *axes) {
    grid.extents.push_back(axis.extent);
    for (std::size_t r = 0; r < grid.place.size(); ++r)
      grid.place[r] = grid.place[r] * axis.extent + axis.coordinate[r];
  }
  std::vector<std::uint8_t> taken(graph.size(), 0);
  for (const std::uint32_t place : grid.place) {
    if (std::exchange(taken[place], 1) != 0)
      return std::nullopt;
  }
  return grid;
}

} // namespace

std::optional<HiddenGrid> hidden_grid(const RankGraph &graph) {
  for (const AxisGraph &axis_graph : axis_graphs(graph)) {
    if (auto grid = grid_of(axis_graph))
      return grid;
  }
  return std::nullopt;
}

} // namespace toposeat
