// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <numeric>
#include <span>

#include "toposeat/large/geometric_orders.hpp"

namespace toposeat {
namespace {

class Bisection {
public:
  Bisection(const Coordinates &coordinates, const SlotTree &tree,
            const std::vector<double> &stretch)
      : coordinates_(coordinates), tree_(tree), stretch_(stretch),
        ranks_(coordinates.values.size() / coordinates.dimensions), slots_(ranks_.size()) {
    std::iota(ranks_.begin(), ranks_.end(), 0U);
  }

  Assignment run() {
    part(0, ranks_);
    return std::move(slots_);
  }

private:
  using Ranks = std::span<std::uint32_t>;

  void part(std::uint32_t index, Ranks ranks) {
    const SlotTree::Part &part = tree_.parts[index];
    if (part.children == 0) {
      for (std::size_t i = 0; i < ranks.size(); ++i)
        slots_[ranks[i]] = tree_.order[part.begin + i];
      return;
    }
    row(part.first_child, part.children, ranks);
  }

  /// Halves a row of siblings and the ranks with it.
  void row(std::uint32_t first, std::uint32_t count, Ranks ranks) {
    if (ranks.empty())
      return;
    if (count == 1) {
      part(first, ranks);
      return;
    }
    const std::uint32_t half = count / 2;
    const std::size_t room = tree_.parts[first + half].begin - tree_.parts[first].begin;
    if (ranks.size() > room)
      cut(ranks, room);
    const std::size_t here = std::min(room, ranks.size());
    row(first, half, ranks.first(here));
    row(first + half, count - half, ranks.subspan(here));
  }

  /// Brings the `room` ranks that lie lowest along the longest dimension to the front; equal ones
  /// by the other dimensions, so that a plane that has to be divided is divided in order.
  void cut(Ranks ranks, std::size_t room) const {
    const std::size_t longest = longest_dimension(ranks);
    const std::size_t dimensions = coordinates_.dimensions;
    std::nth_element(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(room), ranks.end(),
                     [&](std::uint32_t a, std::uint32_t b) {
                       for (std::size_t i = 0; i < dimensions; ++i) {
                         const std::size_t d = (longest + i) % dimensions;
                         const float x = coordinates_.at(a, d);
                         const float y = coordinates_.at(b, d);
                         if (x != y)
                           return x < y;
                       }
                       return a < b;
                     });
  }

  [[nodiscard]] std::size_t longest_dimension(Ranks ranks) const {
    std::size_t best = 0;
    double length = -1;
    for (std::size_t d = 0; d < coordinates_.dimensions; ++d) {
      float low = coordinates_.at(ranks[0], d);
      float high = low;
      for (const std::uint32_t rank : ranks) {
        low = std::min(low, coordinates_.at(rank, d));
        high = std::max(high, coordinates_.at(rank, d));
      }
      const double extent = (high - low + 1) * stretch_[d];
      if (high > low && extent > length * (1 + 1e-9)) {
        length = extent;
        best = d;
      }
    }
    return best;
  }

  const Coordinates &coordinates_;
  const SlotTree &tree_;
  const std::vector<double> &stretch_;
  std::vector<std::uint32_t> ranks_;
  Assignment slots_;
};

} // namespace

Assignment coordinate_bisection(const Coordinates &coordinates, const SlotTree &tree,
                                const std::vector<double> &stretch) {
  return Bisection(coordinates, tree, stretch).run();
}

} // namespace toposeat
