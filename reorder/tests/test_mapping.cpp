// Which process takes which role: never more between nodes than before, the best tiles, and links
// within a node by what they cost.
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
#include <utility>
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

/// Devices of each process, and what a link between two of a node costs; none: not known.
struct Devices {
  std::vector<int> of_process;
  int count = 0;
  std::vector<double> cost;

  [[nodiscard]] double between(std::size_t p, std::size_t q) const {
    return cost[static_cast<std::size_t>(of_process[p] * count + of_process[q])];
  }
};
const Devices unknown;

/// Two switches of two devices, a far link between them.
const std::vector<double> two_switches{0, 1, 5, 5, 1, 0, 5, 5, 5, 5, 0, 1, 5, 5, 1, 0};

class Places {
public:
  Places(std::vector<int> node, Devices devices)
      : node_(std::move(node)), devices_(std::move(devices)) {}
  tpr_places view() {
    return {node_.data(), devices_.count > 0 ? devices_.of_process.data() : nullptr, devices_.count,
            devices_.cost.data()};
  }

private:
  std::vector<int> node_;
  Devices devices_;
};

Answer map_grid(const std::vector<int> &node, const Shape &shape,
                const Devices &devices = unknown) {
  Answer answer{TPR_FAILED, std::vector<int>(node.size(), -1), {}};
  const tpr_grid grid = shape.grid();
  Places places(node, devices);
  const tpr_places view = places.view();
  answer.what = tpr__map_grid(static_cast<int>(node.size()), &view, &grid, answer.new_rank.data(),
                              &answer.links);
  return answer;
}

Answer map_graph(const std::vector<int> &node, const Edges &edges,
                 const Devices &devices = unknown) {
  Answer answer{TPR_FAILED, std::vector<int>(node.size(), -1), {}};
  const tpr_edges list{edges.sources.size(), edges.sources.data(), edges.targets.data(),
                       edges.weights.data()};
  Places places(node, devices);
  const tpr_places view = places.view();
  answer.what = tpr__map_graph(static_cast<int>(node.size()), &view, &list, answer.new_rank.data(),
                               &answer.links);
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

/// Counted anew: what links within nodes cost when process p has role new_rank[p].
double cost_within(const std::vector<int> &node, const std::vector<int> &new_rank,
                   const Edges &edges, const Devices &devices) {
  std::vector<std::size_t> process(node.size());
  for (std::size_t p = 0; p < node.size(); ++p)
    process[static_cast<std::size_t>(new_rank[p])] = p;
  double sum = 0;
  for (std::size_t e = 0; e < edges.sources.size(); ++e) {
    const std::size_t source = process[static_cast<std::size_t>(edges.sources[e])];
    const std::size_t target = process[static_cast<std::size_t>(edges.targets[e])];
    if (source != target && node[source] == node[target])
      sum += edges.weights[e] * devices.between(source, target);
  }
  return sum;
}

/// The same roles on each node, in rising order.
std::vector<int> rising(const std::vector<int> &node, const std::vector<int> &new_rank) {
  std::map<int, std::vector<int>> roles;
  for (std::size_t p = node.size(); p-- > 0;)
    roles[node[p]].push_back(new_rank[p]);
  for (auto &[label, own] : roles)
    std::ranges::sort(own, std::greater<>());
  std::vector<int> made;
  for (const int label : node) {
    made.push_back(roles[label].back());
    roles[label].pop_back();
  }
  return made;
}

void check(const std::vector<int> &node, const Edges &edges, const Answer &answer,
           const Devices &devices = unknown) {
  const std::vector<int> identity = numbers(node.size());
  std::vector<int> sorted = answer.new_rank;
  std::ranges::sort(sorted);
  REQUIRE(sorted == identity);
  REQUIRE((answer.what == TPR_KEPT || answer.what == TPR_MOVED));
  REQUIRE(answer.links.before == between(node, identity, edges));
  REQUIRE(answer.links.after == between(node, answer.new_rank, edges));
  REQUIRE(answer.links.after <= answer.links.before);
  const bool by_link = answer.links.within < answer.links.within_rising;
  REQUIRE((answer.what == TPR_MOVED) == (by_link || answer.links.after < answer.links.before));
  REQUIRE((answer.what == TPR_KEPT) == (answer.new_rank == identity));
  const std::vector<int> in_order = rising(node, answer.new_rank);
  REQUIRE((by_link || answer.new_rank == in_order));
  if (devices.count == 0)
    return;
  const double cost = cost_within(node, in_order, edges, devices);
  REQUIRE_THAT(answer.links.within_rising, Catch::Matchers::WithinAbs(cost, 1e-6));
  const double own = cost_within(node, answer.new_rank, edges, devices);
  REQUIRE_THAT(answer.links.within, Catch::Matchers::WithinAbs(own, 1e-6));
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

  /// Of as many as the largest node can need; processes may share one.
  Devices devices(const std::vector<int> &node) {
    Devices made{{}, 4 + below(5), {}};
    for (std::size_t p = 0; p < node.size(); ++p)
      made.of_process.push_back(below(made.count));
    const auto count = static_cast<std::size_t>(made.count);
    made.cost.assign(count * count, 0);
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = 0; b < a; ++b)
        made.cost[a * count + b] = made.cost[b * count + a] = 1 + below(5);
    return made;
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
  int by_link = 0;
  for (int i = 0; i < 500; ++i) {
    const bool is_known = i % 2 == 0;
    Answer answer;
    if (random.below(2) == 0) {
      const Shape shape = random.shape(1 + random.below(3));
      const auto node = random.nodes(shape.cells());
      const Devices devices = is_known ? random.devices(node) : unknown;
      answer = map_grid(node, shape, devices);
      check(node, grid_edges(shape), answer, devices);
      REQUIRE(answer.new_rank == map_grid(node, shape, devices).new_rank);
    } else {
      const int ranks = 1 + random.below(48);
      const auto node = random.nodes(ranks);
      const Edges edges = random.edges(ranks);
      const Devices devices = is_known ? random.devices(node) : unknown;
      answer = map_graph(node, edges, devices);
      check(node, edges, answer, devices);
      REQUIRE(answer.new_rank == map_graph(node, edges, devices).new_rank);
    }
    by_link += answer.links.within < answer.links.within_rising ? 1 : 0;
  }
  CHECK(by_link > 100);
}

TEST_CASE("within a node roles go by link") {
  const Devices devices{{0, 2, 1, 3}, 4, two_switches}; // of processes in turn on the switches
  Edges pairs;                                          // 0 with 1, 2 with 3
  for (const auto &[a, b] : {std::pair(0, 1), std::pair(2, 3)}) {
    pairs.add(a, b, 10);
    pairs.add(b, a, 10);
  }
  pairs.add(1, 2);
  const auto node = blocks({4});
  const Answer answer = map_graph(node, pairs, devices);
  check(node, pairs, answer, devices);
  CHECK(answer.what == TPR_MOVED);
  CHECK(answer.links.nodes == 1);
  CHECK(answer.links.within_rising == 20 * 5 + 20 * 5 + 5);
  CHECK(answer.links.within == 20 + 20 + 5);
  CHECK(map_graph(node, pairs, {{0, 1, 2, 3}, 4, two_switches}).what == TPR_KEPT);
}

TEST_CASE("the same on every node is searched once, and lies on every node alike") {
  const Devices devices{{0, 2, 1, 3, 0, 2, 1, 3, 0, 2, 1, 3, 0, 2, 1, 3}, 4, two_switches};
  const Shape shape{{4, 4}, {0, 0}};
  const auto node = blocks({4, 4, 4, 4});
  const Answer answer = map_grid(node, shape, devices);
  check(node, grid_edges(shape), answer, devices);
  CHECK(answer.links.after == 16); // as without devices
  CHECK(answer.links.within_rising == 4 * 2 * (5 + 5 + 1 + 1));
  CHECK(answer.links.within == answer.links.within_rising); // each pair of columns is on a switch
}

TEST_CASE("a gain below 1 % moves nobody") {
  const Devices devices{{0, 1, 2}, 3, {0, 1000, 999, 1000, 0, 1000, 999, 1000, 0}};
  Edges pair;
  pair.add(0, 1);
  CHECK(map_graph(blocks({3}), pair, devices).what == TPR_KEPT);
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
  CHECK(map_graph(numbers((1 << 16) + 1), nothing).what == TPR_FAILED); // too many to search
}
