// SPDX-License-Identifier: MIT OR Apache-2.0
#include "large/geometric_orders.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>

namespace toposeat {
namespace {

using Place = std::vector<std::uint32_t>;

Place place_of(const ProcessGrid &grid, std::uint32_t rank) {
  Place place(grid.extents.size());
  for (std::size_t d = place.size(); d-- > 0;) {
    place[d] = rank % grid.extents[d];
    rank /= grid.extents[d];
  }
  return place;
}

std::uint32_t ranks_of(const ProcessGrid &grid) {
  return std::accumulate(grid.extents.begin(), grid.extents.end(), 1U, std::multiplies<>());
}

unsigned bits_of(const ProcessGrid &grid) {
  std::uint32_t longest = 1;
  for (const std::uint32_t extent : grid.extents)
    longest = std::max(longest, extent);
  return static_cast<unsigned>(std::bit_width(longest - 1));
}

/// Bits of all coordinates in turn, the highest first.
std::uint64_t interleaved(const Place &place, unsigned bits) {
  std::uint64_t key = 0;
  for (unsigned bit = bits; bit-- > 0;) {
    for (const std::uint32_t x : place)
      key = key << 1 | (x >> bit & 1U);
  }
  return key;
}

/// Turns coordinates into the transposed Hilbert index, in place.
void to_hilbert(Place &x, unsigned bits) {
  const std::size_t n = x.size();
  const std::uint32_t top = bits > 0 ? 1U << (bits - 1) : 0;
  for (std::uint32_t q = top; q > 1; q >>= 1) {
    const std::uint32_t p = q - 1;
    for (std::size_t i = 0; i < n; ++i) {
      if ((x[i] & q) != 0) {
        x[0] ^= p;
      } else {
        const std::uint32_t t = (x[0] ^ x[i]) & p;
        x[0] ^= t;
        x[i] ^= t;
      }
    }
  }
  for (std::size_t i = 1; i < n; ++i)
    x[i] ^= x[i - 1];
  std::uint32_t t = 0;
  for (std::uint32_t q = top; q > 1; q >>= 1) {
    if ((x[n - 1] & q) != 0)
      t ^= q - 1;
  }
  for (std::uint32_t &each : x)
    each ^= t;
}

template <class Key>
std::vector<std::uint32_t> sorted_by(const ProcessGrid &grid, Key key_of_place) {
  const std::uint32_t ranks = ranks_of(grid);
  std::vector<std::pair<std::uint64_t, std::uint32_t>> keys;
  keys.reserve(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    keys.emplace_back(key_of_place(place_of(grid, rank)), rank);
  std::sort(keys.begin(), keys.end());
  std::vector<std::uint32_t> order;
  order.reserve(ranks);
  for (const auto &[key, rank] : keys)
    order.push_back(rank);
  return order;
}

/// Searches block shapes from the leaf level up.
class BlockSearch {
public:
  BlockSearch(const ProcessGrid &grid, const std::vector<std::uint32_t> &arities,
              const std::vector<double> &level_costs)
      : grid_(grid), arities_(arities), level_costs_(level_costs) {}

  std::vector<Place> run() {
    level(0, Place(grid_.extents.size(), 1), 0);
    return best_;
  }

private:
  /// Extends the blocks of the level below by every factorisation of this level's arity.
  void level(std::size_t at, const Place &below, double cost) {
    if (cost >= least_)
      return;
    if (at + 1 >= arities_.size()) { // the whole grid is the last block
      least_ = cost;
      best_ = chosen_;
      return;
    }
    Place block = below;
    factor(at, block, 0, arities_[at], cost);
  }

  /// Multiplies the extents of `block` from `d` on by `rest` in all; `block` is left as it was.
  void factor(std::size_t at, Place &block, std::size_t d, std::uint32_t rest, double cost) {
    const std::uint32_t below = block[d];
    const bool last = d + 1 == block.size();
    for (std::uint32_t f = last ? rest : 1; f <= rest; ++f) {
      if (rest % f != 0 || grid_.extents[d] % (below * f) != 0)
        continue;
      block[d] = below * f;
      if (last) {
        chosen_.push_back(block);
        level(at + 1, block, cost + surface(at, block));
        chosen_.pop_back();
      } else {
        factor(at, block, d + 1, rest / f, cost);
      }
    }
    block[d] = below;
  }

  /// What leaving blocks of this shape costs more than staying inside, summed over the grid.
  [[nodiscard]] double surface(std::size_t at, const Place &block) const {
    double sum = 0;
    for (std::size_t d = 0; d < block.size(); ++d) {
      const bool whole = block[d] == grid_.extents[d];
      sum += whole ? 0 : grid_.pull[d] / block[d];
    }
    return sum * (level_costs_[at + 1] - level_costs_[at]);
  }

  const ProcessGrid &grid_;
  const std::vector<std::uint32_t> &arities_;
  const std::vector<double> &level_costs_;
  std::vector<Place> chosen_;
  std::vector<Place> best_;
  double least_ = std::numeric_limits<double>::infinity();
};

} // namespace

std::vector<std::uint32_t> hilbert_order(const ProcessGrid &grid) {
  const unsigned bits = bits_of(grid);
  return sorted_by(grid, [&](Place place) {
    to_hilbert(place, bits);
    return interleaved(place, bits);
  });
}

std::vector<std::uint32_t> morton_order(const ProcessGrid &grid) {
  const unsigned bits = bits_of(grid);
  return sorted_by(grid, [&](const Place &place) { return interleaved(place, bits); });
}

std::vector<std::uint32_t> block_order(const ProcessGrid &grid, const std::vector<Place> &nested) {
  return sorted_by(grid, [&](const Place &place) {
    std::uint64_t key = 0;
    Place outer = grid.extents;
    // From the largest blocks to the smallest, then the rank within: mixed radix throughout.
    for (std::size_t level = nested.size() + 1; level-- > 0;) {
      const Place inner = level > 0 ? nested[level - 1] : Place(place.size(), 1);
      for (std::size_t d = 0; d < place.size(); ++d) {
        const std::uint32_t count = (outer[d] + inner[d] - 1) / inner[d];
        key = key * count + place[d] % outer[d] / inner[d];
      }
      outer = inner;
    }
    return key;
  });
}

std::vector<Place> best_blocks(const ProcessGrid &grid, const std::vector<std::uint32_t> &arities,
                               const std::vector<double> &level_costs) {
  return BlockSearch(grid, arities, level_costs).run();
}

Assignment along(const std::vector<std::uint32_t> &rank_order,
                 const std::vector<std::uint32_t> &slots) {
  Assignment result(rank_order.size());
  for (std::size_t i = 0; i < rank_order.size(); ++i)
    result[rank_order[i]] = slots[i];
  return result;
}

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

  /// Bisects a row of siblings and the ranks with it.
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
