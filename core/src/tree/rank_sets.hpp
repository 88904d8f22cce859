// Sets of up to 16 ranks as bit masks.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "toposeat/problem/qap.hpp"

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

/// Ranks without a pin that send and receive nothing: which of them a set has does not matter, only
/// how many.
RankSet silent_ranks(const Qap &traffic);

/// Bytes that leave and enter a set of ranks.
struct Crossing {
  double out = 0;
  double in = 0;
};

} // namespace toposeat
