// The traffic over the border of sets of ranks, for whole rows of sets.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <vector>

#include "toposeat/problem/qap.hpp"
#include "tree/set_rows.hpp"
#include "tree/tree_kernel.hpp"

namespace toposeat {

/// A set's members send and receive so much, less what stays among them: of the ranks that turn, of
/// the others, and between both.
class BorderRows {
public:
  explicit BorderRows(const Matrix &flow);

  /// For the rows of all sets with these high ranks and `low` turning ones.
  [[nodiscard]] BorderParts parts(std::size_t low, RankSet high) const;

  [[nodiscard]] int ranks() const { return static_cast<int>(flow_.n); }
  [[nodiscard]] Crossing of(RankSet set) const;

  /// What one rank sends and receives.
  [[nodiscard]] Crossing of_rank(int rank) const {
    return of_rank_[static_cast<std::size_t>(rank)];
  }

private:
  static constexpr std::size_t high_ranks = max_set_ranks - turned_ranks;
  static constexpr std::size_t half_sets = 16; // of the first, or the last four high ranks

  /// What the members of a set of eight ranks have by themselves.
  struct Members {
    Crossing all;
    double inside = 0; // among them
  };
  using MembersOf = std::array<Members, 256>;

  [[nodiscard]] double between(std::size_t r, std::size_t s) const;
  [[nodiscard]] MembersOf members(std::size_t first) const;
  void fill_low(const MembersOf &members);
  void fill_across();

  std::array<TurnRow, LowSets::rows> low_out_{};
  std::array<TurnRow, LowSets::rows> low_in_{};
  std::array<TurnRow, LowSets::rows> low_inside_{};
  const Matrix &flow_;
  double noise_ = 0;
  std::vector<TurnRow> across_; // [first or last four][set of the four][row]
  std::array<Crossing, max_set_ranks> of_rank_{};
  MembersOf high_{};
};

} // namespace toposeat
