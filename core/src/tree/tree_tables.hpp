// The best value of every set of ranks below every stage of a tree.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "tree/border_rows.hpp"
#include "tree/set_rows.hpp"
#include "tree/tree_kernel.hpp"
#include "tree/tree_stages.hpp"

namespace toposeat {

/// One table for each stage, filled from the leaves up.
class TreeTables {
public:
  /// The last `silent` ranks send and receive nothing and have no pins.
  TreeTables(const TreeStages &stages, const Qap &traffic, int silent);
  ~TreeTables();
  TreeTables(const TreeTables &) = delete;
  TreeTables &operator=(const TreeTables &) = delete;

  /// Placements with a term above `limit` do not count: infinite where none is left.
  void fill(TermJoin join, double limit);

  /// The same once more, after `fill` for the largest term without a lower limit.
  void refill(TermJoin join, double limit);

  [[nodiscard]] double value(int stage, RankSet set) const {
    return values(stage)[rows_.place(stages_[stage].size, set)];
  }

  /// Which ranks of a set the right part has in a best split.
  [[nodiscard]] RankSet best_right(int stage, RankSet set) const;

private:
  static constexpr std::size_t most_parts = 70; // of one size, of a set of eight

  static std::size_t index(int number) { return static_cast<std::size_t>(number); }
  [[nodiscard]] const double *values(int stage) const {
    return tables_[index(stage)].front().values.data();
  }
  /// Of the sets with these high ranks.
  [[nodiscard]] const double *first_value(int stage, RankSet high) const {
    return values(stage) + 2 * turned_ranks * rows_.first_row(stages_[stage].size, high);
  }
  [[nodiscard]] double joined(double a, double b) const {
    return join_ == TermJoin::sum ? a + b : std::max(a, b);
  }
  [[nodiscard]] bool may_be_infinite() const {
    return limit_ < unlimited || stages_.all_pinned() != 0;
  }
  [[nodiscard]] double leaf_value(const std::vector<CutTerm> &terms, int rank) const;
  void fill_stages();
  void fill_leaves(int number);
  void fill_joined(int number);
  void spread_finite(std::array<bool, 256> &any) const;
  std::size_t list_splits(const Stage &stage, RankSet high, std::size_t right_low, bool lowest);
  RowSet charge(const Stage &stage, RankSet high, std::size_t low, std::span<SetRow> rows) const;
  void keep_pins(const Stage &stage, RankSet high, std::size_t low, std::span<SetRow> rows) const;
  [[nodiscard]] int completed_by(int number) const;
  void keep_completing(int part, RankSet high, std::size_t low, std::span<SetRow> rows) const;
  template <class Visit>
  void for_each_high(const Stage &stage, std::span<SetRow> table, Visit visit) const;

  BorderRows border_;
  const TreeStages &stages_;
  const LowSets &lows_;
  const SetRows &rows_;
  double limit_ = unlimited;
  double most_ = unlimited; // of what the tables had before
  std::vector<SetRow> memory_;
  std::vector<std::span<SetRow>> tables_; // by stage
  /// By stage: whether any set with these high ranks has a value that is not infinite.
  std::vector<std::array<bool, 256>> any_;
  TreeKernel kernel_{};
  std::array<HighSplit, most_parts + 1> splits_{}; // the last one is never used
  TermJoin join_ = TermJoin::sum;
};

} // namespace toposeat
