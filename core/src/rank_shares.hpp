// What each rank must be charged at least: additive lower bounds of the values of sets of ranks.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <vector>

#include "rank_sets.hpp"

namespace toposeat {

/// The join of the shares of any set's members, in two look-ups.
template <class Join> class SetBound {
public:
  explicit SetBound(const std::vector<double> &shares) {
    for (std::size_t byte = 0; byte < 2; ++byte) {
      for (std::size_t bits = 1; bits < 256; ++bits) {
        const std::size_t rank = 8 * byte + static_cast<std::size_t>(std::countr_zero(bits));
        const double share = rank < shares.size() ? shares[rank] : 0;
        joined_[byte][bits] = Join::join(joined_[byte][bits & (bits - 1)], share);
      }
    }
  }

  double operator()(RankSet set) const {
    return Join::join(joined_[0][set & 255U], joined_[1][set >> 8U]);
  }

private:
  std::array<std::array<double, 256>, 2> joined_{};
};

/// For each rank the least that any set of `size` ranks with it has beyond its members' shares, and
/// at least 0. All shares can be raised by a `size`-th of that at once: none takes more than its
/// part of what a set has left. `values` are by set number.
std::vector<double> least_left(const double *values, int size, const std::vector<double> &shares);

} // namespace toposeat
