// The innermost loops of dynamic programming over sets of ranks: whole rows of sets at once.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "toposeat/tree/cut_tree.hpp"
#include "tree/set_rows.hpp"

namespace toposeat {

/// One way of dividing the ranks that do not turn: the rows of both parts, with those ranks.
struct HighSplit {
  const double *right; // first row of the part's sets
  const double *left;
};

/// What crosses the border of the sets of some rows with the same high ranks, in terms of what low
/// and high ranks have by themselves.
struct BorderParts {
  const TurnRow *low_out;      // [row]: sent by the low ranks
  const TurnRow *low_in;       // received
  const TurnRow *low_inside;   // bytes among them
  const TurnRow *across_first; // between them and the first, and the last four high ranks
  const TurnRow *across_last;
  double high_out = 0;
  double high_in = 0;
  double high_inside = 0;
  double noise = 0; // less is nothing
};

/// Some of the rows with the same high ranks: bit r is the r-th.
using RowSet = std::uint32_t;

struct TreeKernel {
  /// Second halves become what the terms charge, infinite where one is above the limit or what the
  /// first half had was above `most`; first ones infinite. Which rows have any second value that is
  /// not.
  RowSet (*charge)(std::span<const CutTerm> terms, double limit, double most,
                   const BorderParts &border, std::span<SetRow> rows);
  /// Second values become infinite where those of `others`, turn by turn, are.
  void (*rule_out)(const double *others, SetRow &row);
  /// Which rows have any second value that is not infinite.
  RowSet (*finite)(std::span<const SetRow> rows);
  /// Lowers the first halves of the chosen rows to their best splits among these: every way of
  /// dividing the high ranks with every one of dividing the turning ones, both parts' values
  /// joined.
  void (*join)(std::span<const HighSplit> splits, const LowSplits &lows, RowSet chosen,
               std::span<SetRow> rows);
  /// Both halves of every row become the join of both; which have any value that is not infinite.
  RowSet (*end)(std::span<SetRow> rows);
};

enum class TermJoin { sum, max }; // how terms make up a value

TreeKernel tree_kernel(TermJoin join);

} // namespace toposeat
