// Dividing graphs into parts: sizes stay within capacities, cuts never grow.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "catch.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "division/block_annealing.hpp"
#include "division/block_balance.hpp"
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

std::vector<std::uint32_t> dealt(const std::vector<std::uint32_t> &capacity, std::uint32_t ranks,
                                 Rng &rng) {
  std::vector<std::uint32_t> seats;
  for (std::uint32_t b = 0; b < capacity.size(); ++b)
    seats.insert(seats.end(), capacity[b], b);
  for (std::size_t i = seats.size(); i > 1; --i)
    std::swap(seats[i - 1], seats[rng.below(i)]);
  seats.resize(ranks);
  return seats;
}

} // namespace

TEST_CASE("a rank too many travels along a path: every move of it is the cheapest") {
  //  0 0 0 | 1 1 | 2      a line of six: block 0 is one too full, block 2 has room
  Edges line;
  for (std::uint32_t v = 0; v + 1 < 6; ++v)
    line[{v, v + 1}] = 1;
  const PartGraph graph = part_graph(6, line);
  std::vector<std::uint32_t> block{0, 0, 0, 1, 1, 2};
  std::vector<std::int32_t> spare{-1, 0, 1};
  BlockBalancer().balance(graph, spare, block);
  CHECK(block == std::vector<std::uint32_t>{0, 0, 1, 1, 2, 2});
  CHECK(spare == std::vector<std::int32_t>{0, 0, 0});
}

TEST_CASE("ranks too many find room where no path leads, too") {
  std::vector<std::uint32_t> block{0, 0, 0, 0, 2};
  std::vector<std::int32_t> spare{-3, 2, 0, 1};
  BlockBalancer().balance(part_graph(5, {{{0, 4}, 1.0F}}), spare, block);
  CHECK(fits(block, {1, 2, 1, 1}));
  CHECK(std::all_of(spare.begin(), spare.end(), [](std::int32_t each) { return each == 0; }));
}

TEST_CASE("balancing random divisions moves no more ranks than it must, nor fewer") {
  Rng rng(5);
  for (int round = 0; round < 30; ++round) {
    const std::uint32_t ranks = 20 + rng.below(60);
    const std::uint32_t blocks = 2 + rng.below(8);
    const PartGraph graph = random_graph(ranks, rng.below(200), rng);
    const std::vector<std::uint32_t> capacity(blocks, (ranks + blocks - 1) / blocks);
    std::vector<std::uint32_t> block(ranks);
    for (std::uint32_t &each : block)
      each = rng.below(blocks);
    const std::vector<std::uint32_t> before = sizes(block, blocks);
    std::vector<std::int32_t> spare;
    for (std::uint32_t b = 0; b < blocks; ++b)
      spare.push_back(static_cast<std::int32_t>(capacity[b]) -
                      static_cast<std::int32_t>(before[b]));
    BlockBalancer().balance(graph, spare, block);
    const std::vector<std::uint32_t> after = sizes(block, blocks);
    CHECK(fits(block, capacity));
    for (std::uint32_t b = 0; b < blocks; ++b) {
      CHECK(spare[b] == static_cast<std::int32_t>(capacity[b] - after[b]));
      // Full blocks lose what is too much and no more, others lose nothing.
      CHECK(after[b] >= std::min(before[b], capacity[b]));
    }
  }
}

TEST_CASE("annealing keeps sizes and never raises the cut") {
  Rng rng(11);
  for (int round = 0; round < 12; ++round) {
    const std::uint32_t blocks = 3 + rng.below(9);
    std::vector<std::uint32_t> capacity(blocks);
    std::uint32_t slots = 0;
    for (std::uint32_t &each : capacity)
      slots += each = rng.below(24);
    const std::uint32_t ranks = slots - rng.below(slots / 2 + 1);
    const PartGraph graph = random_graph(ranks, 4 * ranks, rng);
    const std::vector<std::uint32_t> start = dealt(capacity, ranks, rng);
    std::vector<std::uint32_t> block = start;
    BlockAnnealer(7, Deadline::in(100)).anneal(graph, capacity, block);
    CHECK(fits(block, capacity));
    CHECK(cut_of(graph, block) <= cut_of(graph, start));
    std::vector<std::uint32_t> again = start;
    BlockAnnealer(7, Deadline::in(100)).anneal(graph, capacity, again);
    CHECK(again == block);
    std::vector<std::uint32_t> late = start;
    BlockAnnealer(7, Deadline::in(0)).anneal(graph, capacity, late);
    CHECK(fits(late, capacity));
  }
}

TEST_CASE("annealing gathers cliques that were dealt out at random") {
  const PartGraph graph = ring_of_cliques(6, 8);
  const std::vector<std::uint32_t> capacity(6, 8);
  Rng rng(3);
  std::vector<std::uint32_t> block = dealt(capacity, 48, rng);
  BlockAnnealer(1, Deadline::in(100)).anneal(graph, capacity, block);
  CHECK(cut_of(graph, block) == 2 * 6); // the ring alone, from both ends
}

TEST_CASE("every clique of a grid shares its block with a neighbour") {
  const PartGraph graph = grid_of_cliques(12, 4);
  const std::vector<std::uint32_t> capacity(72, 8);
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    const auto block = Divider(seed, true, Deadline::in(100)).divide(graph, capacity);
    CHECK(fits(block, capacity));
    CHECK(cut_of(graph, block) == 2 * 4 * (2 * 12 * 11 - 72));
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
  CHECK(cut_of(graph, thorough) < 0.98 * cut_of(graph, quick));
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
