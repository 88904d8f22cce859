// The innermost loops of progressive filling for few flows, whose sets are bits.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "flow_set.hpp"

namespace toposeat {

/// Columns are the constraints that can be full. Their number is a multiple of `column_block`, with
/// columns that no flow uses at the end.
inline constexpr std::size_t column_block = 4;

/// What the rounds of a filling read and write, each array by column.
template <std::size_t Words> struct FillColumns {
  std::size_t count = 0;
  const FlowSet<Words> *users = nullptr;
  std::int32_t *growing = nullptr; // how many of its users still grow
  double *were_growing = nullptr;  // at the beginning of the latest round
  double *shares = nullptr;        // of each of these in what is left
};

template <std::size_t Words> struct FillKernel {
  /// Shares where `growing` flows divide what is `left`; returns the smallest.
  double (*enter)(const FillColumns<Words> &columns, const FlowSet<Words> &growing,
                  const double *left);
  /// The same in the round after: those that do not grow any more have taken `level` each, and
  /// what they leave is written to `next`.
  double (*advance)(const FillColumns<Words> &columns, const FlowSet<Words> &growing, double level,
                    const double *left, double *next);
  /// The users, growing or not, of columns whose share is at most `limit`.
  FlowSet<Words> (*users_of_full)(const FillColumns<Words> &columns, double limit);
};

/// For this processor; the results are the same whatever it offers.
template <std::size_t Words> FillKernel<Words> fill_kernel();

} // namespace toposeat
