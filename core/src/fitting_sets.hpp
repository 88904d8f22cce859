// Sets of ranks that fit below the nodes of a tree within a limit of every term, as bits.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rank_sets.hpp"
#include "toposeat/subset_dp.hpp"
#include "tree_stages.hpp"

namespace toposeat {

/// Bit s stands for the set s: 64 sets to a word.
using SetBits = std::vector<std::uint64_t>;

/// Which sets fit is found out for 64 sets at a time. Sets of two parts are joined by taking each
/// set of the one in turn and moving the bits of the other by it: the union of two sets without a
/// common rank is the sum of their numbers.
class FittingSets {
public:
  FittingSets(const CutTree &tree, const Qap &traffic);

  /// Proved minimum of the largest term, if it is below `upper`.
  std::optional<TreeAnswer> least(double upper);

  /// Finds the sets that fit within the limit; false if no placement does.
  bool fill(double limit);

  /// Whether the set may be at the stage, as filled last. Where it may, it need not fit with the
  /// other ranks elsewhere.
  [[nodiscard]] bool fits(int stage, RankSet set) const {
    return (fitting_[index(stage)][set / 64] >> set % 64 & 1U) != 0;
  }

private:
  static std::size_t index(int number) { return static_cast<std::size_t>(number); }

  double own_term(int number, RankSet set);
  void fill_stage(int number, double limit);
  void fill_flat(const Stage &stage, double limit, SetBits &bits);
  void keep_within(int number, double limit);
  void keep_completing(int number, SetBits &bits) const;
  [[nodiscard]] std::optional<RankSet> root_right() const;
  [[nodiscard]] RankSet right_part(int number, RankSet set) const;
  [[nodiscard]] Assignment placement() const;
  double largest_term(const Assignment &placement);

  const CutTree &tree_;
  const Qap &traffic_;
  int ranks_;
  BorderTraffic border_;
  const std::vector<std::uint16_t> &numbers_;
  TreeStages stages_;
  double next_ = 0;              // least limit beyond the one filled last at which more sets fit
  std::vector<SetBits> within_;  // by stage: no other sets count
  std::vector<SetBits> fitting_; // by stage
  std::vector<std::vector<double>> own_; // by stage and set number; negative: not asked for yet
};

} // namespace toposeat
