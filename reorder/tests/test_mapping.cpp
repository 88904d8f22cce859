// Which process takes which role: never more between nodes than before, and the best tiles.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "mapping.h"
#include "tiles.hpp"

namespace {

constexpr double none = std::numeric_limits<double>::infinity();

struct Answer {
  tpr_answer what;
  std::vector<int> new_rank;
  tpr_links links;
};

struct Edges {
  std::vector<int> sources, targets, weights;

  void add(int source, int target, int weight = 1) {
    sources.push_back(source);
    targets.push_back(target);
    weights.push_back(weight);
  }
};

struct Shape {
  std::vector<int> extents, periods;

  [[nodiscard]] int cells() const {
    return std::accumulate(extents.begin(), extents.end(), 1, std::multiplies<>());
  }
  [[nodiscard]] tpr_grid grid() const {
    return {static_cast<int>(extents.size()), extents.data(), periods.data()};
  }
};

std::vector<int> numbers(std::size_t count) {
  std::vector<int> made(count);
  std::iota(made.begin(), made.end(), 0);
  return made;
}

std::vector<int> blocks(const std::vector<int> &sizes) {
  std::vector<int> node;
  for (std::size_t k = 0; k < sizes.size(); ++k)
    node.insert(node.end(), static_cast<std::size_t>(sizes[k]), static_cast<int>(k) + 7);
  return node;
}

Answer map_grid(const std::vector<int> &node, const Shape &shape) {
  Answer answer{TPR_FAILED, std::vector<int>(node.size(), -1), {}};
  const tpr_grid grid = shape.grid();
  answer.what = tpr__map_grid(static_cast<int>(node.size()), node.data(), &grid,
                              answer.new_rank.data(), &answer.links);
  return answer;
}

Answer map_graph(const std::vector<int> &node, const Edges &edges) {
  Answer answer{TPR_FAILED, std::vector<int>(node.size(), -1), {}};
  const tpr_edges list{edges.sources.size(), edges.sources.data(), edges.targets.data(),
                       edges.weights.data()};
  answer.what = tpr__map_graph(static_cast<int>(node.size()), node.data(), &list,
                               answer.new_rank.data(), &answer.links);
  return answer;
}

/// Counted anew, edge by edge: what lies between nodes when process p has role new_rank[p].
double between(const std::vector<int> &node, const std::vector<int> &new_rank, const Edges &edges) {
  std::vector<int> node_of_role(node.size());
  for (std::size_t p = 0; p < node.size(); ++p)
    node_of_role[static_cast<std::size_t>(new_rank[p])] = node[p];
  double sum = 0;
  for (std::size_t e = 0; e < edges.sources.size(); ++e)
    if (node_of_role[static_cast<std::size_t>(edges.sources[e])] !=
        node_of_role[static_cast<std::size_t>(edges.targets[e])])
      sum += edges.weights[e];
  return sum;
}

/// Neighbours as MPI_Cart_shift finds them, by coordinates.
Edges grid_edges(const Shape &shape) {
  Edges edges;
  for (int cell = 0; cell < shape.cells(); ++cell) {
    int stride = 1;
    for (std::size_t d = shape.extents.size(); d-- > 0;) {
      const int extent = shape.extents[d];
      const int at = cell / stride % extent;
      for (const int step : {-1, 1}) {
        const bool inside = at + step >= 0 && at + step < extent;
        const int wrapped = (at + step + extent) % extent;
        if ((inside || shape.periods[d] != 0) && wrapped != at)
          edges.add(cell, cell + (wrapped - at) * stride);
      }
      stride *= extent;
    }
  }
  return edges;
}

void check(const std::vector<int> &node, const Edges &edges, const Answer &answer) {
  const std::vector<int> identity = numbers(node.size());
  std::vector<int> sorted = answer.new_rank;
  std::ranges::sort(sorted);
  REQUIRE(sorted == identity);
  REQUIRE((answer.what == TPR_KEPT || answer.what == TPR_MOVED));
  REQUIRE(answer.links.before == between(node, identity, edges));
  REQUIRE(answer.links.after == between(node, answer.new_rank, edges));
  REQUIRE((answer.what == TPR_MOVED) == (answer.links.after < answer.links.before));
  REQUIRE((answer.what == TPR_KEPT) == (answer.new_rank == identity));
  std::map<int, int> last; // processes of a node hold its roles in rising order
  for (std::size_t p = 0; p < node.size(); ++p) {
    const auto [at, first] = last.try_emplace(node[p], answer.new_rank[p]);
    REQUIRE((first || at->second < answer.new_rank[p]));
    at->second = answer.new_rank[p];
  }
}

class Random {
public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(engine_); }

  std::vector<int> nodes(int ranks) {
    std::vector<int> sizes;
    for (int left = ranks; left > 0; left -= sizes.back())
      sizes.push_back(std::min(left, 1 + below(8)));
    std::vector<int> node = blocks(sizes);
    if (below(3) == 0)
      std::ranges::shuffle(node, engine_);
    return node;
  }

  Shape shape(int dimensions) {
    Shape made;
    for (int d = 0; d < dimensions; ++d) {
      made.extents.push_back(1 + below(6));
      made.periods.push_back(below(2));
    }
    return made;
  }

  Edges edges(int ranks) {
    Edges made;
    for (int e = below(5 * ranks); e > 0; --e)
      made.add(below(ranks), below(ranks), below(9));
    return made;
  }

private:
  std::mt19937 engine_;
};

/// The links that boxes of these sides cut; `none` if they do not divide the grid.
double cut_of_boxes(const Shape &shape, const std::vector<int> &box, const Edges &edges) {
  std::vector<int> number(static_cast<std::size_t>(shape.cells()));
  for (std::size_t cell = 0; cell < number.size(); ++cell) {
    int rest = static_cast<int>(cell);
    for (std::size_t d = box.size(); d-- > 0; rest /= shape.extents[d]) {
      if (shape.extents[d] % box[d] != 0)
        return none;
      number[cell] = number[cell] * 8 + rest % shape.extents[d] / box[d];
    }
  }
  return between(number, numbers(number.size()), edges);
}

/// Over all boxes of `size` cells.
double least_cut(const Shape &shape, int size, const Edges &edges) {
  double least = none;
  std::vector<int> box(shape.extents.size(), 1);
  for (std::size_t d = 0; d < box.size();) { // as an odometer counts
    if (std::accumulate(box.begin(), box.end(), 1, std::multiplies<>()) == size)
      least = std::min(least, cut_of_boxes(shape, box, edges));
    for (d = 0; d < box.size() && ++box[d] > shape.extents[d]; ++d)
      box[d] = 1;
  }
  return least;
}

} // namespace

TEST_CASE("a 4 x 4 grid on four nodes is tiled") {
  const Shape shape{{4, 4}, {0, 0}};
  const auto node = blocks({4, 4, 4, 4});
  const Answer answer = map_grid(node, shape);
  CHECK(answer.links.all == 48);
  CHECK(answer.links.before == 24);
  CHECK(answer.links.after == 16);
  CHECK(answer.links.nodes == 4);
  CHECK(answer.new_rank == std::vector<int>{0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15});
  check(node, grid_edges(shape), answer);
}

TEST_CASE("a grid that lies well stays") {
  const Answer answer = map_grid(blocks({4, 4, 4, 4}), {{4, 2, 2}, {0, 0, 0}});
  CHECK(answer.what == TPR_KEPT);
  CHECK(answer.links.before == 24);
}

TEST_CASE("ranks dealt out round robin are gathered") {
  std::vector<int> node;
  for (int p = 0; p < 64; ++p)
    node.push_back(p % 8);
  const Shape shape{{8, 8}, {1, 1}};
  const Answer answer = map_grid(node, shape);
  check(node, grid_edges(shape), answer);
  CHECK(answer.links.after == 96); // boxes of 4 x 2, 12 links each
}

TEST_CASE("the best box is that of all boxes") {
  Random random(3);
  for (int i = 0; i < 200; ++i) {
    const Shape shape = random.shape(1 + random.below(4));
    const int size = 1 + random.below(shape.cells());
    const Edges edges = grid_edges(shape);
    const double least = least_cut(shape, size, edges);
    const auto found =
        toposeat::reorder::Grid(shape.grid()).best_tiles(static_cast<std::uint32_t>(size));
    REQUIRE(found.empty() == (least == none));
    if (!found.empty())
      REQUIRE(between({found.begin(), found.end()}, numbers(found.size()), edges) == least);
  }
}

TEST_CASE("random grids and graphs are never worse, and the same each time") {
  Random random(7);
  for (int i = 0; i < 500; ++i) {
    if (random.below(2) == 0) {
      const Shape shape = random.shape(1 + random.below(3));
      const auto node = random.nodes(shape.cells());
      const Answer answer = map_grid(node, shape);
      check(node, grid_edges(shape), answer);
      REQUIRE(answer.new_rank == map_grid(node, shape).new_rank);
    } else {
      const int ranks = 1 + random.below(48);
      const auto node = random.nodes(ranks);
      const Edges edges = random.edges(ranks);
      const Answer answer = map_graph(node, edges);
      check(node, edges, answer);
      REQUIRE(answer.new_rank == map_graph(node, edges).new_rank);
    }
  }
}

TEST_CASE("groups that talk among themselves come together") {
  Edges edges;
  for (int a = 0; a < 32; ++a)
    for (int b = 0; b < 32; ++b)
      if (a != b && a % 4 == b % 4)
        edges.add(a, b, 3);
  const auto node = blocks({8, 8, 8, 8});
  const Answer answer = map_graph(node, edges);
  CHECK(answer.links.before == 3.0 * 32 * 6);
  CHECK(answer.links.after == 0);
  check(node, edges, answer);
}

TEST_CASE("sizes at their ends") {
  const Edges nothing;
  CHECK(map_graph({5}, nothing).what == TPR_KEPT);
  CHECK(map_graph(blocks({1, 1, 1}), nothing).what == TPR_KEPT);
  CHECK(map_grid(blocks({1, 2}), {{3}, {1}}).what == TPR_KEPT);
  CHECK(map_graph(numbers(4000), nothing).what == TPR_FAILED); // nodes: too many to search
}
