// The innermost loop of progressive filling.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <limits>

namespace toposeat {

/// What a column has left, and how many of its variables still grow: two doubles, so that one
/// vector instruction takes a variable out.
struct Room {
  double left = 0;
  double growing = 0;
};

/// Equal share of what a column has left. One that rounding left with nothing or less has next to
/// nothing, one without growing variables an infinite share.
inline double share_of(const Room &room) {
  constexpr double least = std::numeric_limits<double>::min(); // over 0: infinity
  return (room.left > least ? room.left : least) / room.growing;
}

/// Writes the share of each column and returns the smallest.
using ColumnShares = double (*)(const Room *rooms, std::size_t columns, double *shares);

/// For this processor; the results are the same whatever it offers.
ColumnShares column_shares();

} // namespace toposeat
