// Sets of up to 16 ranks as bit masks: numbering, splitting, and the traffic over their border.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "toposeat/qap.hpp"

namespace toposeat {

using RankSet = std::uint32_t;

inline constexpr int max_set_ranks = 16;

/// Number of every set of up to 16 ranks among those of its size, in increasing order of the mask
/// (so that sets of the first n ranks are numbered 0..C(n, k) - 1).
const std::vector<std::uint16_t> &set_numbers();

/// C(ranks, size).
std::size_t set_count(int ranks, int size);

/// Masks over `size` positions with `chosen` bits; only those with bit 0 if `with_lowest`.
const std::vector<std::uint16_t> &subset_patterns(int size, int chosen, bool with_lowest);

/// Maps a pattern over positions 0..k-1 to the elements of a set in increasing order.
class SubsetSpread {
public:
  explicit SubsetSpread(RankSet set) {
    for (auto &nibble : spread_) {
      nibble[0] = 0;
      if (set == 0) { // no pattern names a position after the last element, only bit pattern 0
        continue;
      }
      for (std::size_t bit = 1; bit < 16; bit *= 2) {
        const RankSet lowest = set & (~set + 1);
        set ^= lowest;
        for (std::size_t i = 0; i < bit; ++i)
          nibble[bit + i] = nibble[i] | lowest;
      }
    }
  }

  RankSet operator()(std::uint16_t pattern) const {
    return spread_[0][pattern & 15U] | spread_[1][pattern >> 4U & 15U] |
           spread_[2][pattern >> 8U & 15U] | spread_[3][pattern >> 12U];
  }

  /// The same for sets of at most 8.
  [[nodiscard]] RankSet short_pattern(std::uint16_t pattern) const {
    return spread_[0][pattern & 15U] | spread_[1][pattern >> 4U];
  }

private:
  std::array<std::array<RankSet, 16>, 4> spread_;
};

/// Calls `visit(set)` for every set of `size` of the first `ranks` ranks, in increasing order.
template <class Visit> void for_each_set(int ranks, int size, Visit visit) {
  const std::uint64_t end = std::uint64_t{1} << ranks;
  if (size == 0) {
    visit(RankSet{0});
    return;
  }
  for (std::uint64_t set = (std::uint64_t{1} << size) - 1; set < end;) {
    visit(static_cast<RankSet>(set));
    // Gosper: the next larger number with as many bits.
    const std::uint64_t low = set & (~set + 1);
    const std::uint64_t ripple = set + low;
    const unsigned zeros = static_cast<unsigned>(std::countr_zero(set)) & 63U; // a set is not empty
    set = (((ripple ^ set) >> 2U) >> zeros) | ripple;
  }
}

/// Bytes that leave and enter a set of ranks.
struct Crossing {
  double out = 0;
  double in = 0;
};

/// Crossing traffic of any set in at most ten table look-ups.
class BorderTraffic {
public:
  explicit BorderTraffic(const Matrix &flow);

  [[nodiscard]] Crossing of(RankSet set) const;

private:
  /// Of a set within the first or the second eight ranks.
  struct Half {
    Crossing all;      // sent and received by its members
    double inside = 0; // among them
  };
  std::array<std::array<Half, 256>, 2> halves_{};
  std::array<std::array<double, 256>, 8> across_{}; // rank r < 8 with a set of ranks 8..15
  double total_ = 0;
};

} // namespace toposeat
