// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/machines/slot_tree.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>

namespace toposeat {
namespace {

constexpr std::size_t most_dimensions = 4;

/// A block of a grid: where it begins and how far it reaches in each dimension.
struct Block {
  std::array<std::uint32_t, most_dimensions> low{};
  std::array<std::uint32_t, most_dimensions> extent{1, 1, 1, 1};

  [[nodiscard]] std::uint32_t cells() const {
    return std::accumulate(extent.begin(), extent.end(), 1U, std::multiplies<>());
  }
};

/// Writes blocks of a grid as parts of a tree.
class GridCutter {
public:
  GridCutter(const std::vector<std::uint32_t> &extents, const std::vector<double> &step_cost,
             std::uint32_t slots)
      : extents_(extents), step_cost_(step_cost), slots_(slots) {}

  SlotTree cut() {
    Block whole;
    std::copy(extents_.begin(), extents_.end(), whole.extent.begin());
    tree_.parts.push_back({0, whole.cells() * slots_, 0, 0});
    blocks_.push_back(whole);
    for (std::size_t k = 0; k < tree_.parts.size(); ++k) // grows meanwhile
      divide(k);
    tree_.order.resize(tree_.parts[0].end);
    for (std::size_t k = 0; k < tree_.parts.size(); ++k) {
      if (tree_.parts[k].children == 0)
        write_slots(k);
    }
    return std::move(tree_);
  }

private:
  void divide(std::size_t k) {
    const Block block = blocks_[k];
    const std::size_t dimension = dearest(block);
    if (block.extent[dimension] < 2)
      return;
    Block first = block;
    Block second = block;
    first.extent[dimension] = block.extent[dimension] / 2;
    second.extent[dimension] -= first.extent[dimension];
    second.low[dimension] += first.extent[dimension];
    const std::uint32_t begin = tree_.parts[k].begin;
    const std::uint32_t middle = begin + first.cells() * slots_;
    const std::uint32_t end = tree_.parts[k].end;
    tree_.parts[k].first_child = static_cast<std::uint32_t>(tree_.parts.size());
    tree_.parts[k].children = 2;
    tree_.parts.push_back({begin, middle, 0, 0});
    tree_.parts.push_back({middle, end, 0, 0});
    blocks_.push_back(first);
    blocks_.push_back(second);
  }

  /// The longest dimension, measured in what crossing it costs.
  [[nodiscard]] std::size_t dearest(const Block &block) const {
    std::size_t best = 0;
    double length = -1;
    for (std::size_t d = 0; d < extents_.size(); ++d) {
      const double cost = block.extent[d] < 2 ? -1 : block.extent[d] * step_cost_[d];
      if (cost > length) {
        length = cost;
        best = d;
      }
    }
    return best;
  }

  /// The slots of an undivided block: those of one node of the grid.
  void write_slots(std::size_t k) {
    std::size_t cell = 0;
    for (std::size_t d = 0; d < extents_.size(); ++d)
      cell = cell * extents_[d] + blocks_[k].low[d];
    for (std::uint32_t i = 0; i < slots_; ++i)
      tree_.order[tree_.parts[k].begin + i] = static_cast<std::uint32_t>(cell * slots_ + i);
  }

  const std::vector<std::uint32_t> &extents_;
  const std::vector<double> &step_cost_;
  std::uint32_t slots_;
  SlotTree tree_;
  std::vector<Block> blocks_;
};

} // namespace

SlotTree nested_tree(const std::vector<std::uint32_t> &arities) {
  SlotTree tree;
  std::uint32_t slots = 1;
  for (const std::uint32_t arity : arities)
    slots *= arity;
  tree.order.resize(slots);
  std::iota(tree.order.begin(), tree.order.end(), 0U);
  tree.parts.push_back({0, slots, 0, 0});
  std::size_t first = 0; // of the level above
  for (std::size_t level = arities.size(); level-- > 1;) {
    const std::size_t last = tree.parts.size();
    for (std::size_t k = first; k < last; ++k) {
      const SlotTree::Part part = tree.parts[k];
      const std::uint32_t size = part.size() / arities[level];
      tree.parts[k].first_child = static_cast<std::uint32_t>(tree.parts.size());
      tree.parts[k].children = arities[level];
      for (std::uint32_t c = 0; c < arities[level]; ++c)
        tree.parts.push_back({part.begin + c * size, part.begin + (c + 1) * size, 0, 0});
    }
    first = last;
  }
  return tree;
}

SlotTree grid_tree(const std::vector<std::uint32_t> &extents, const std::vector<double> &step_cost,
                   std::uint32_t slots) {
  return GridCutter(extents, step_cost, slots).cut();
}

SlotTree thinned(const SlotTree &tree, std::uint32_t count) {
  const std::uint64_t slots = tree.order.size();
  SlotTree thin;
  for (std::uint64_t i = 0; i < count; ++i)
    thin.order.push_back(tree.order[i * slots / count]);
  const auto before = [&](std::uint64_t place) { // how many of them lie before it
    return static_cast<std::uint32_t>((place * count + slots - 1) / slots);
  };
  std::vector<std::uint32_t> was{0}; // each part's number in the whole tree
  thin.parts.push_back({0, count, 0, 0});
  for (std::size_t k = 0; k < thin.parts.size(); ++k) { // grows meanwhile
    const SlotTree::Part part = tree.parts[was[k]];
    thin.parts[k].first_child = static_cast<std::uint32_t>(thin.parts.size());
    for (std::uint32_t child = part.first_child; child < part.first_child + part.children;
         ++child) {
      const std::uint32_t begin = before(tree.parts[child].begin);
      const std::uint32_t end = before(tree.parts[child].end);
      if (begin == end)
        continue;
      thin.parts.push_back({begin, end, 0, 0});
      was.push_back(child);
      ++thin.parts[k].children;
    }
  }
  return thin;
}

void split_leaves(SlotTree &tree, std::uint32_t groups) {
  const std::size_t parts = tree.parts.size();
  for (std::size_t k = 0; k < parts; ++k) {
    const SlotTree::Part part = tree.parts[k];
    if (part.children > 0)
      continue;
    tree.parts[k].first_child = static_cast<std::uint32_t>(tree.parts.size());
    tree.parts[k].children = groups;
    const std::uint32_t size = part.size() / groups;
    for (std::uint32_t c = 0; c < groups; ++c)
      tree.parts.push_back({part.begin + c * size, part.begin + (c + 1) * size, 0, 0});
  }
}

std::vector<std::uint32_t> nearness_order(const std::vector<double> &distance, std::uint32_t n) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  const auto far = [&](std::uint32_t a, std::uint32_t b) {
    return distance[std::size_t{a} * n + b] + distance[std::size_t{b} * n + a];
  };
  std::vector<std::pair<std::uint32_t, std::uint32_t>> open{{0, n}};
  while (!open.empty()) {
    const auto [begin, end] = open.back();
    open.pop_back();
    if (end - begin < 3)
      continue;
    const auto first = order.begin() + begin;
    const auto last = order.begin() + end;
    // Twice the farthest from where one is: nearly the farthest pair, in linear time.
    const auto farthest = [&](std::uint32_t from) {
      return *std::max_element(first, last, [&](std::uint32_t a, std::uint32_t b) {
        return far(from, a) < far(from, b);
      });
    };
    const std::uint32_t one = farthest(*first);
    const std::uint32_t other = farthest(one);
    std::sort(first, last, [&](std::uint32_t a, std::uint32_t b) {
      const auto x = far(one, a) - far(other, a);
      const auto y = far(one, b) - far(other, b);
      return x < y || (x == y && a < b);
    });
    const std::uint32_t middle = begin + (end - begin) / 2;
    open.emplace_back(begin, middle);
    open.emplace_back(middle, end);
  }
  return order;
}

SlotTree binary_tree(const std::vector<std::uint32_t> &order,
                     const std::vector<std::uint32_t> &unit_sizes) {
  SlotTree tree;
  tree.order = order;
  std::vector<std::uint32_t> start{0};
  for (const std::uint32_t size : unit_sizes)
    start.push_back(start.back() + size);
  const auto units = static_cast<std::uint32_t>(unit_sizes.size());
  std::vector<std::pair<std::uint32_t, std::uint32_t>> range{{0, units}};
  tree.parts.push_back({0, start.back(), 0, 0});
  for (std::size_t k = 0; k < tree.parts.size(); ++k) { // grows meanwhile
    const auto [begin, end] = range[k];
    if (end - begin < 2)
      continue;
    const std::uint32_t middle = begin + (end - begin) / 2;
    tree.parts[k].first_child = static_cast<std::uint32_t>(tree.parts.size());
    tree.parts[k].children = 2;
    tree.parts.push_back({start[begin], start[middle], 0, 0});
    tree.parts.push_back({start[middle], start[end], 0, 0});
    range.emplace_back(begin, middle);
    range.emplace_back(middle, end);
  }
  return tree;
}

} // namespace toposeat
