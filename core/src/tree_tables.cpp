// SPDX-License-Identifier: MIT OR Apache-2.0
#include "tree_tables.hpp"

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
    : stages_(stages), rows_(SetRows::of(static_cast<int>(traffic.size()), silent)),
      border_(traffic.flow), memory_(std::exchange(spare_memory(), {})) {
  std::size_t rows = 0;
  for (std::size_t s = 0; s < stages.size(); ++s)
    rows += rows_.rows(stages[static_cast<int>(s)].size);
  if (memory_.size() < rows)
    memory_.resize(rows);
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
  kernel_ = tree_kernels(join).front();
  limit_ = limit;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const Stage &stage = stages_[static_cast<int>(s)];
    if (stage.left >= 0) {
      fill_joined(stage, tables_[s]);
    } else {
      fill_leaves(stage, tables_[s]);
    }
    charge(stage, tables_[s]);
    keep_pins(stage, tables_[s]);
  }
}

/// Calls `visit(high ranks, number of turning ranks, rows)` for all sets of the stage.
template <class Visit>
void TreeTables::for_each_high(const Stage &stage, std::span<SetRow> table, Visit visit) {
  const auto size = static_cast<std::size_t>(stage.size);
  for (const std::uint8_t high : rows_.highs()) {
    const std::size_t chosen = SetRows::size_of_high(high);
    if (chosen > size || size - chosen > turned_ranks)
      continue;
    const std::size_t low = size - chosen;
    visit(RankSet{high}, low,
          table.subspan(rows_.first_row(stage.size, high), LowSets::all().count(low)));
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
void TreeTables::fill_leaves(const Stage &stage, std::span<SetRow> table) {
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
  for_each_high(stage, table, [&](RankSet high, std::size_t low, std::span<SetRow> rows) {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const RankSet own = LowSets::all().own(low, row);
      for (std::size_t turn = 0; turn < turned_ranks; ++turn) {
        const double value = joined(joined_values[0][turned(own, turn)], joined_values[1][high]);
        rows[row].values[turn] = rows[row].values[turn + turned_ranks] = value;
      }
    }
  });
}

void TreeTables::fill_joined(const Stage &stage, std::span<SetRow> table) {
  const auto right_size = static_cast<std::size_t>(stages_[stage.right].size);
  std::array<HighSplit, 70> splits; // no set of eight has more parts of one size
  for_each_high(stage, table, [&](RankSet high, std::size_t low, std::span<SetRow> rows) {
    for (SetRow &row : rows)
      row.values.fill(unlimited);
    const bool lowest_is_low = stage.symmetric && low > 0;
    for (std::size_t right_low = 0; right_low <= std::min(low, right_size); ++right_low) {
      const std::size_t right_high = right_size - right_low;
      if (right_high > SetRows::size_of_high(high))
        continue;
      std::size_t count = 0;
      for (const std::uint8_t right :
           rows_.parts(high, right_high, stage.symmetric && !lowest_is_low))
        splits[count++] = {first_value(stage.right, right), first_value(stage.left, high ^ right)};
      kernel_.join({splits.data(), count}, LowSets::all().splits(low, right_low, lowest_is_low),
                   rows);
    }
  });
}

/// Adds the node's own terms.
void TreeTables::charge(const Stage &stage, std::span<SetRow> table) {
  if (stage.terms.empty())
    return;
  for_each_high(stage, table, [&](RankSet high, std::size_t low, std::span<SetRow> rows) {
    kernel_.charge(stage.terms, limit_, border_.parts(low, high), rows);
  });
}

/// Ranks with a pin must be where it is, and nobody else's.
void TreeTables::keep_pins(const Stage &stage, std::span<SetRow> table) {
  if (!stage.has_pins)
    return;
  for_each_high(stage, table, [&](RankSet high, std::size_t low, std::span<SetRow> rows) {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      for (std::size_t turn = 0; turn < turned_ranks; ++turn) {
        const RankSet set = turned(LowSets::all().own(low, row), turn) | high << turned_ranks;
        if ((set & stages_.all_pinned()) != stage.pinned)
          rows[row].values[turn] = rows[row].values[turn + turned_ranks] = unlimited;
      }
    }
  });
}

RankSet TreeTables::best_right(int number, RankSet set) const {
  const Stage &stage = stages_[number];
  const LowSets &lows = LowSets::all();
  const auto right_size = static_cast<std::size_t>(stages_[stage.right].size);
  const RankSet high = rows_.standing_for(set >> turned_ranks);
  const std::size_t low = static_cast<std::size_t>(stage.size) - SetRows::size_of_high(high);
  const std::size_t place = lows.place(set & 255U);
  const std::size_t turn = place % (2 * turned_ranks);
  const bool lowest_is_low = stage.symmetric && low > 0;
  double best = unlimited;
  RankSet best_high = 0;
  RankSet best_low = 0;
  for (std::size_t right_low = 0; right_low <= std::min(low, right_size); ++right_low) {
    if (right_size - right_low > SetRows::size_of_high(high))
      continue;
    const LowSplits splits = lows.splits(low, right_low, lowest_is_low);
    const LowSplit *const mine = splits.splits + place / (2 * turned_ranks) * splits.stride;
    for (const std::uint8_t part :
         rows_.parts(high, right_size - right_low, stage.symmetric && !lowest_is_low)) {
      const double *const right = first_value(stage.right, part) + turn;
      const double *const left = first_value(stage.left, high ^ part) + turn;
      for (const LowSplit &split : std::span(mine, splits.count)) {
        const double each = joined(right[split.right], left[split.left]);
        if (each < best) {
          best = each;
          best_high = part;
          best_low = turned(lows.at(right_low, split.right), turn);
        }
      }
    }
  }
  return best_low | rows_.within(set >> turned_ranks, best_high) << turned_ranks;
}

} // namespace toposeat
