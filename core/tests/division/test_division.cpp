// Dividing graphs into parts: sizes stay within capacities, cuts never grow.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "catch.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "division/division.hpp"

using namespace toposeat;

namespace {

using Edges = std::map<std::pair<std::uint32_t, std::uint32_t>, float>;

PartGraph part_graph(std::uint32_t vertices, const Edges &edges) {
  std::vector<std::vector<std::pair<std::uint32_t, float>>> rows(vertices);
  for (const auto &[ends, weight] : edges) {
    rows[ends.first].emplace_back(ends.second, weight);
    rows[ends.second].emplace_back(ends.first, weight);
  }
  PartGraph graph;
  graph.size.assign(vertices, 1);
  for (const auto &row : rows) {
    for (const auto &[target, weight] : row) {
      graph.target.push_back(target);
      graph.weight.push_back(weight);
    }
    graph.begin.push_back(static_cast<std::uint32_t>(graph.target.size()));
  }
  return graph;
}

PartGraph random_graph(std::uint32_t vertices, std::uint32_t edges, Rng &rng) {
  Edges drawn;
  for (std::uint32_t i = 0; i < edges; ++i) {
    const std::uint32_t a = rng.below(vertices);
    const std::uint32_t b = rng.below(vertices);
    if (a != b)
      drawn[std::minmax(a, b)] = static_cast<float>(1 + rng.below(100));
  }
  return part_graph(vertices, drawn);
}

/// Cliques in a ring, joined by one light edge each.
PartGraph ring_of_cliques(std::uint32_t cliques, std::uint32_t size) {
  Edges edges;
  for (std::uint32_t c = 0; c < cliques; ++c) {
    for (std::uint32_t i = 0; i < size; ++i) {
      for (std::uint32_t j = 0; j < i; ++j)
        edges[{c * size + j, c * size + i}] = 4;
    }
    edges[std::minmax(c * size, (c + 1) % cliques * size + 1)] = 1;
  }
  return part_graph(cliques * size, edges);
}

/// Cliques on a grid; ranks of the same number talk to each other from clique to clique.
PartGraph grid_of_cliques(std::uint32_t side, std::uint32_t size) {
  Edges edges;
  for (std::uint32_t c = 0; c < side * side; ++c) {
    for (std::uint32_t i = 0; i < size; ++i) {
      for (std::uint32_t j = 0; j < i; ++j)
        edges[{c * size + j, c * size + i}] = 8;
      if ((c + 1) % side != 0)
        edges[{c * size + i, (c + 1) * size + i}] = 1;
      if (c + side < side * side)
        edges[{c * size + i, (c + side) * size + i}] = 1;
    }
  }
  return part_graph(side * side * size, edges);
}

std::vector<std::uint32_t> sizes(const std::vector<std::uint32_t> &block, std::size_t blocks) {
  std::vector<std::uint32_t> size(blocks, 0);
  for (const std::uint32_t b : block)
    ++size.at(b);
  return size;
}

bool fits(const std::vector<std::uint32_t> &block, const std::vector<std::uint32_t> &capacity) {
  const std::vector<std::uint32_t> size = sizes(block, capacity.size());
  return std::equal(size.begin(), size.end(), capacity.begin(), std::less_equal<>());
}

} // namespace

TEST_CASE("nearly every clique of a grid shares its block with a neighbour") {
  const PartGraph graph = grid_of_cliques(12, 4);
  const std::vector<std::uint32_t> capacity(72, 8);
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    const auto block = Divider(seed, true, Deadline::in(100)).divide(graph, capacity);
    CHECK(fits(block, capacity));
    const double least = 2 * 4 * (2 * 12 * 11 - 72);
    CHECK(cut_of(graph, block) >= least);
    CHECK(cut_of(graph, block) <= 1.02 * least);
  }
}

TEST_CASE("a thorough division of a random graph is less cut than a quick one") {
  Rng rng(2);
  const PartGraph graph = random_graph(512, 2560, rng);
  const std::vector<std::uint32_t> capacity(16, 32);
  const auto quick = Divider(1, false, Deadline::in(100)).divide(graph, capacity);
  const auto thorough = Divider(1, true, Deadline::in(100)).divide(graph, capacity);
  CHECK(fits(quick, capacity));
  CHECK(fits(thorough, capacity));
  CHECK(cut_of(graph, thorough) < cut_of(graph, quick));
}

TEST_CASE("a division goes on from a start that is better, and never ends above it") {
  const PartGraph cliques = ring_of_cliques(8, 16);
  const std::vector<std::uint32_t> capacity(8, 16);
  std::vector<std::uint32_t> in_order(128);
  for (std::uint32_t v = 0; v < 128; ++v)
    in_order[v] = v / 16;
  const auto kept = Divider(1, true, Deadline::in(100)).divide(cliques, capacity, in_order);
  CHECK(cut_of(cliques, kept) == 2 * 8);
  Rng rng(9);
  const PartGraph graph = random_graph(128, 500, rng);
  const auto start = Divider(2, true, Deadline::in(100)).divide(graph, capacity);
  for (const bool thorough : {false, true}) {
    const auto after = Divider(3, thorough, Deadline::in(100)).divide(graph, capacity, start);
    CHECK(fits(after, capacity));
    CHECK(cut_of(graph, after) <= cut_of(graph, start));
    const auto late = Divider(3, thorough, Deadline::in(0)).divide(graph, capacity, start);
    CHECK(fits(late, capacity));
    CHECK(cut_of(graph, late) <= cut_of(graph, start));
  }
}
