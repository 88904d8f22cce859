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

/// Numbers of both parts of every split of a set of eight ranks. A number is a sum over the members
/// in increasing order, the i-th adding C(rank, i): here one look-up for each half of the set.
class SplitNumbers {
public:
  static constexpr int size = 8;

  SplitNumbers(RankSet set, int right);

  /// Calls `visit(left number, right number, 0 or 1 in turn)` for every split, or only for those
  /// whose right part has the lowest rank.
  template <class Visit> void for_each(bool lowest, Visit visit) const {
    if (lowest && right_ == 4) {
      for (std::size_t i = 0; i < halves_.size(); ++i)
        visit(low_[0][15U - halves_[i][0]] + high_[0][15U - halves_[i][1]],
              low_[0][halves_[i][0]] + high_[0][halves_[i][1]], i % 2);
      return;
    }
    const std::size_t other = right_ == 4 ? 0 : 1;
    for (std::size_t low = lowest ? 1 : 0; low < 16; low += lowest ? 2 : 1) {
      const int rest = right_ - ones_[low];
      if (rest < 0 || rest > 4)
        continue;
      for (const std::uint8_t high : with_ones_[static_cast<std::size_t>(rest)]) {
        if (high < 16)
          visit(low_[other][15 - low] + high_[other][15 - high], low_[0][low] + high_[0][high],
                high % 2);
      }
    }
  }

private:
  /// The 35 halves with the lowest rank, as masks of four ranks each.
  static constexpr auto halves_ = [] {
    std::array<std::array<std::uint8_t, 2>, 35> halves{};
    std::size_t count = 0;
    for (unsigned bits = 1; bits < 256; bits += 2) {
      if (std::popcount(bits) == 4)
        halves[count++] = {static_cast<std::uint8_t>(bits & 15U),
                           static_cast<std::uint8_t>(bits >> 4U)};
    }
    return halves;
  }();

  // Spelt out: without an instruction for it, counting bits is a call.
  static constexpr std::array<std::uint8_t, 16> ones_{0, 1, 1, 2, 1, 2, 2, 3,
                                                      1, 2, 2, 3, 2, 3, 3, 4};
  /// Masks of four with so many ones; 16 where there are no more.
  static constexpr std::array<std::array<std::uint8_t, 6>, 5> with_ones_{
      {{0, 16, 16, 16, 16, 16},
       {1, 2, 4, 8, 16, 16},
       {3, 5, 6, 9, 10, 12},
       {7, 11, 13, 14, 16, 16},
       {15, 16, 16, 16, 16, 16}}};

  int right_;
  // Of the right and the left part, by mask; where both have four, only the first is filled.
  std::array<std::array<std::uint16_t, 16>, 2> low_;
  std::array<std::array<std::uint16_t, 16>, 2> high_;
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

/// Ranks that send and receive nothing: it does not matter which of them a set has, only how many.
class SilentRanks {
public:
  /// Ranks with a pin are left out.
  explicit SilentRanks(const Qap &traffic);

  [[nodiscard]] bool any() const { return all_ != 0; }
  [[nodiscard]] int count() const { return std::popcount(all_); }

  /// The set with the lowest silent ranks in place of its own.
  [[nodiscard]] RankSet lowest(RankSet set) const {
    return (set & ~all_) | lowest_[static_cast<std::size_t>(std::popcount(set & all_))];
  }

  /// Whether the silent ranks of a part are the lowest ones of the whole: of parts that differ in
  /// these alone, one has them.
  [[nodiscard]] bool lowest_of(RankSet part, RankSet whole) const {
    const RankSet mine = part & all_;
    return (whole & all_ & (2 * std::bit_floor(mine) - 1)) == mine || mine == 0;
  }

private:
  RankSet all_ = 0;                                 // none if there is but one
  std::array<RankSet, max_set_ranks + 1> lowest_{}; // so many of them
};

/// Bytes that leave and enter a set of ranks.
struct Crossing {
  double out = 0;
  double in = 0;
};

/// Crossing traffic of any set in six look-ups.
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
  // Between four ranks of the first half and four of the second: [first][second][members]
  std::array<std::array<std::array<double, 256>, 2>, 2> across_{};
  double total_ = 0;
};

} // namespace toposeat
