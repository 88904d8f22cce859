// SPDX-License-Identifier: MIT OR Apache-2.0
#include "tree/tree_tables.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace toposeat {
namespace {

/// Of tables that are gone: fresh memory takes longer to get than to fill.
std::vector<SetRow> &spare_memory() {
  thread_local std::vector<SetRow> rows;
  return rows;
}

} // namespace

TreeTables::TreeTables(const TreeStages &stages, const Qap &traffic, int silent)
    : border_(traffic.flow), stages_(stages), lows_(LowSets::all()),
      rows_(SetRows::of(static_cast<int>(traffic.size()), silent)),
      memory_(std::exchange(spare_memory(), {})) {
  std::size_t rows = 0;
  for (std::size_t s = 0; s < stages.size(); ++s)
    rows += rows_.rows(stages[static_cast<int>(s)].size);
  if (memory_.size() < rows)
    memory_.resize(rows);
  any_.resize(stages.size());
  std::span<SetRow> rest = memory_;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::size_t mine = rows_.rows(stages[static_cast<int>(s)].size);
    tables_.push_back(rest.first(mine));
    rest = rest.subspan(mine);
  }
}

TreeTables::~TreeTables() { spare_memory() = std::move(memory_); }

void TreeTables::fill(TermJoin join, double limit) {
  join_ = join;
  limit_ = limit;
  most_ = unlimited; // whatever is there
  fill_stages();
}

void TreeTables::refill(TermJoin join, double limit) {
  join_ = join;
  limit_ = most_ = limit;
  fill_stages();
}

void TreeTables::fill_stages() {
  kernel_ = tree_kernel(join_);
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    any_[s].fill(true);
    if (stages_[static_cast<int>(s)].left >= 0) {
      fill_joined(static_cast<int>(s));
    } else {
      fill_leaves(static_cast<int>(s));
    }
    if (may_be_infinite())
      spread_finite(any_[s]);
  }
}

/// From sets of high ranks to those for which they stand.
void TreeTables::spread_finite(std::array<bool, 256> &any) const {
  for (RankSet high = 0; high < any.size(); ++high)
    any[high] = any[rows_.standing_for(high)];
}

/// Calls `visit(high ranks, number of turning ranks, rows)` for all sets of the stage.
template <class Visit>
void TreeTables::for_each_high(const Stage &stage, std::span<SetRow> table, Visit visit) const {
  const auto size = static_cast<std::size_t>(stage.size);
  for (const std::uint8_t high : rows_.highs()) {
    const std::size_t chosen = size_of_eight(high);
    if (chosen > size || size - chosen > turned_ranks)
      continue;
    const std::size_t low = size - chosen;
    visit(RankSet{high}, low, table.subspan(rows_.first_row(stage.size, high), lows_.count(low)));
  }
}

double TreeTables::leaf_value(const std::vector<CutTerm> &terms, int rank) const {
  double value = 0;
  for (const CutTerm &term : terms) {
    const double each = charge_of(term, border_.of_rank(rank));
    value = joined(value, each > limit_ ? unlimited : each);
  }
  return value;
}

/// Every rank on a leaf with the same terms, or nothing below at all.
void TreeTables::fill_leaves(int number) {
  const Stage &stage = stages_[number];
  std::array<std::array<double, 256>, 2> joined_values{}; // of low and of high ranks
  if (stage.leaf >= 0) {
    for (std::size_t half = 0; half < 2; ++half) {
      for (RankSet set = 1; set < 256; ++set) {
        const int rank = static_cast<int>(turned_ranks * half) + std::countr_zero(set);
        joined_values[half][set] = joined(joined_values[half][set & (set - 1)],
                                          leaf_value(stages_[stage.leaf].terms, rank));
      }
    }
  }
  for_each_high(stage, tables_[index(number)],
                [&](RankSet high, std::size_t low, std::span<SetRow> rows) {
                  charge(stage, high, low, rows);
                  for (std::size_t row = 0; row < rows.size(); ++row) {
                    const RankSet own = lows_.own(low, row);
                    for (std::size_t turn = 0; turn < turned_ranks; ++turn)
                      rows[row].values[turn] =
                          joined(joined_values[0][turned(own, turn)], joined_values[1][high]);
                  }
                  any_[index(number)][high] = kernel_.end(rows) != 0;
                });
}

/// First what the node itself adds: sets that it rules out need not be split.
void TreeTables::fill_joined(int number) {
  const Stage &stage = stages_[number];
  const auto right_size = static_cast<std::size_t>(stages_[stage.right].size);
  const int other_part = completed_by(number);
  for_each_high(stage, tables_[index(number)],
                [&](RankSet high, std::size_t low, std::span<SetRow> rows) {
                  RowSet possible = charge(stage, high, low, rows);
                  if (other_part >= 0) {
                    keep_completing(other_part, high, low, rows);
                    possible = kernel_.finite(rows);
                  }
                  const bool lowest_is_low = stage.symmetric && low > 0;
                  for (std::size_t right_low = 0;
                       possible != 0 && right_low <= std::min(low, right_size); ++right_low) {
                    const std::size_t count =
                        list_splits(stage, high, right_low, stage.symmetric && !lowest_is_low);
                    if (count > 0)
                      kernel_.join({splits_.data(), count},
                                   lows_.splits(low, right_low, lowest_is_low), possible, rows);
                  }
                  any_[index(number)][high] = kernel_.end(rows) != 0;
                });
}

/// Ways of dividing the high ranks so that so many turning ones are left for the right part; if
/// `lowest`, with the lowest high rank there.
std::size_t TreeTables::list_splits(const Stage &stage, RankSet high, std::size_t right_low,
                                    bool lowest) {
  const std::size_t right_high = static_cast<std::size_t>(stages_[stage.right].size) - right_low;
  if (right_high > size_of_eight(high))
    return 0;
  const std::array<bool, 256> &any_right = any_[index(stage.right)];
  const std::array<bool, 256> &any_left = any_[index(stage.left)];
  const SetRow *const rights = tables_[index(stage.right)].data();
  const SetRow *const lefts = tables_[index(stage.left)].data();
  const auto &right_rows = rows_.first_rows(stages_[stage.right].size);
  const auto &left_rows = rows_.first_rows(stages_[stage.left].size);
  std::size_t count = 0;
  for (const std::uint8_t right : rows_.parts(high, right_high, lowest)) {
    const RankSet left = high ^ right;
    splits_[count] = {rights[right_rows[right]].values.data(),
                      lefts[left_rows[left]].values.data()};
    count += any_right[right] && any_left[left] ? 1 : 0;
  }
  return count;
}

/// What the node itself adds, with what its pins rule out, into the second halves of the rows.
RowSet TreeTables::charge(const Stage &stage, RankSet high, std::size_t low,
                          std::span<SetRow> rows) const {
  const RowSet possible =
      kernel_.charge(stage.terms, limit_, most_, border_.parts(low, high), rows);
  if (!stage.has_pins)
    return possible;
  keep_pins(stage, high, low, rows);
  return kernel_.finite(rows);
}

/// Ranks with a pin must be where it is, and nobody else's.
void TreeTables::keep_pins(const Stage &stage, RankSet high, std::size_t low,
                           std::span<SetRow> rows) const {
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t turn = 0; turn < turned_ranks; ++turn) {
      const RankSet set = turned(lows_.own(low, row), turn) | high << turned_ranks;
      if ((set & stages_.all_pinned()) != stage.pinned)
        rows[row].values[turn + turned_ranks] = unlimited;
    }
  }
}

/// The other part of the root, if it is filled already and may rule out sets; else -1.
int TreeTables::completed_by(int number) const {
  const Stage &root = stages_[static_cast<int>(stages_.size()) - 1];
  const bool is_last = number == std::max(root.left, root.right) && root.left != root.right;
  if (!may_be_infinite() || !is_last || border_.ranks() < static_cast<int>(turned_ranks))
    return -1;
  return std::min(root.left, root.right);
}

/// Only sets matter whose other ranks fit into the other part of the root.
void TreeTables::keep_completing(int part, RankSet high, std::size_t low,
                                 std::span<SetRow> rows) const {
  const RankSet all = (RankSet{1} << border_.ranks()) - 1;
  const int size = stages_[part].size;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const RankSet rest = all ^ (lows_.own(low, row) | high << turned_ranks);
    kernel_.rule_out(values(part) + rows_.place(size, rest), rows[row]);
  }
}

RankSet TreeTables::best_right(int number, RankSet set) const {
  const Stage &stage = stages_[number];
  const auto right_size = static_cast<std::size_t>(stages_[stage.right].size);
  const RankSet high = rows_.standing_for(set >> turned_ranks);
  const std::size_t low = static_cast<std::size_t>(stage.size) - size_of_eight(high);
  const std::size_t place = lows_.place(set & 255U);
  const std::size_t turn = place % (2 * turned_ranks);
  const bool lowest_is_low = stage.symmetric && low > 0;
  double best = unlimited;
  double most = unlimited; // that either part has, of equally good ones
  RankSet best_high = 0;
  RankSet best_low = 0;
  for (std::size_t right_low = 0; right_low <= std::min(low, right_size); ++right_low) {
    if (right_size - right_low > size_of_eight(high))
      continue;
    const LowSplits splits = lows_.splits(low, right_low, lowest_is_low);
    const LowSplit *const mine = splits.splits + place / (2 * turned_ranks) * splits.stride;
    for (const std::uint8_t part :
         rows_.parts(high, right_size - right_low, stage.symmetric && !lowest_is_low)) {
      const double *const right = first_value(stage.right, part) + turn;
      const double *const left = first_value(stage.left, high ^ part) + turn;
      for (const LowSplit &split : std::span(mine, splits.count)) {
        const double each = joined(right[split.right], left[split.left]);
        const double larger = std::max(right[split.right], left[split.left]);
        if (less_by_tolerance(each, best) || (each <= best * (1 + 1e-12) && larger < most)) {
          best = each;
          most = larger;
          best_high = part;
          best_low = turned(lows_.at(right_low, split.right), turn);
        }
      }
    }
  }
  return best_low | rows_.within(set >> turned_ranks, best_high) << turned_ranks;
}

} // namespace toposeat
