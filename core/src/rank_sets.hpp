// Sets of up to 16 ranks as bit masks, and the traffic over their border.
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

/// C(ranks, size).
std::size_t set_count(int ranks, int size);

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

  /// Whether the silent ranks of a part are the lowest ones of the whole: of parts that differ in
  /// these alone, one has them.
  [[nodiscard]] bool lowest_of(RankSet part, RankSet whole) const {
    const RankSet mine = part & all_;
    return (whole & all_ & (2 * std::bit_floor(mine) - 1)) == mine || mine == 0;
  }

private:
  RankSet all_ = 0; // none if there is but one
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
