// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/large/geometric_orders.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

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
    factor(at, below, 0, arities_[at], cost);
  }

  void factor(std::size_t at, const Place &block, std::size_t d, std::uint32_t rest, double cost) {
    if (d + 1 == block.size()) {
      Place next = block;
      next[d] *= rest;
      if (grid_.extents[d] % next[d] != 0)
        return;
      chosen_.push_back(next);
      level(at + 1, next, cost + surface(at, next));
      chosen_.pop_back();
      return;
    }
    for (std::uint32_t f = 1; f <= rest; ++f) {
      if (rest % f != 0 || grid_.extents[d] % (block[d] * f) != 0)
        continue;
      Place next = block;
      next[d] *= f;
      factor(at, next, d + 1, rest / f, cost);
    }
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

} // namespace toposeat
