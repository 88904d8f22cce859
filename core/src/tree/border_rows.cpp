// SPDX-License-Identifier: MIT OR Apache-2.0
#include "tree/border_rows.hpp"

#include <bit>

namespace toposeat {
namespace {

/// Calls `visit(row of all sizes, turn, set)` for every turn of every row.
template <class Visit> void for_each_turn(Visit visit) {
  const LowSets &sets = LowSets::all();
  for (std::size_t size = 0; size < LowSets::sizes; ++size) {
    for (std::size_t row = 0; row < sets.count(size); ++row) {
      for (std::size_t turn = 0; turn < turned_ranks; ++turn)
        visit(sets.first(size) + row, turn, turned(sets.own(size, row), turn));
    }
  }
}

std::size_t lowest(RankSet set) { return static_cast<std::size_t>(std::countr_zero(set)); }

} // namespace

BorderRows::BorderRows(const Matrix &flow)
    : flow_(flow), across_(2 * half_sets * LowSets::rows, TurnRow{}) {
  double total = 0;
  for (std::size_t r = 0; r < flow.n; ++r) {
    for (std::size_t s = 0; s < flow.n; ++s) {
      of_rank_[r].out += flow(r, s);
      of_rank_[s].in += flow(r, s);
      total += flow(r, s);
    }
  }
  // Bytes are whole and differences exact; of other numbers nothing but rounding may be left.
  noise_ = 1e-13 * total;
  fill_low(members(0));
  high_ = members(turned_ranks);
  fill_across();
}

BorderParts BorderRows::parts(std::size_t low, RankSet high) const {
  const std::size_t first = LowSets::all().first(low);
  const Members &members = high_[high];
  return {&low_out_[first],
          &low_in_[first],
          &low_inside_[first],
          &across_[(high % half_sets) * LowSets::rows + first],
          &across_[(half_sets + high / half_sets) * LowSets::rows + first],
          members.all.out,
          members.all.in,
          members.inside,
          noise_};
}

Crossing BorderRows::of(RankSet set) const {
  const LowSets &sets = LowSets::all();
  const RankSet high = set >> turned_ranks;
  const std::size_t size = size_of_eight(set & 255U);
  const std::size_t place = sets.place(set & 255U);
  const std::size_t row = place / (2 * turned_ranks);
  const std::size_t turn = place % (2 * turned_ranks);
  const BorderParts border = parts(size, high);
  const double inside =
      border.low_inside[row].values[turn] + border.high_inside +
      (border.across_first[row].values[turn] + border.across_last[row].values[turn]);
  const double out = border.low_out[row].values[turn] + border.high_out - inside;
  const double in = border.low_in[row].values[turn] + border.high_in - inside;
  return {out > noise_ ? out : 0, in > noise_ ? in : 0};
}

/// Both ways; nothing where there is no such rank.
double BorderRows::between(std::size_t r, std::size_t s) const {
  return r < flow_.n && s < flow_.n ? flow_(r, s) + flow_(s, r) : 0;
}

/// Of all sets of the eight ranks from `first` on.
BorderRows::MembersOf BorderRows::members(std::size_t first) const {
  MembersOf all{};
  for (RankSet set = 1; set < all.size(); ++set) {
    const RankSet rest = set & (set - 1);
    const std::size_t r = first + lowest(set);
    Members &here = all[set];
    here = all[rest];
    here.all.out += of_rank_[r].out;
    here.all.in += of_rank_[r].in;
    for (RankSet others = rest; others != 0; others &= others - 1)
      here.inside += between(r, first + lowest(others));
  }
  return all;
}

void BorderRows::fill_low(const MembersOf &members) {
  for_each_turn([&](std::size_t row, std::size_t turn, RankSet set) {
    low_out_[row].values[turn] = members[set].all.out;
    low_in_[row].values[turn] = members[set].all.in;
    low_inside_[row].values[turn] = members[set].inside;
  });
}

void BorderRows::fill_across() {
  for (std::size_t h = 0; turned_ranks + h < flow_.n; ++h) {
    std::array<double, 256> of_set{};
    for (RankSet set = 1; set < of_set.size(); ++set)
      of_set[set] = of_set[set & (set - 1)] + between(lowest(set), turned_ranks + h);
    TurnRow *const half = &across_[h / 4 * half_sets * LowSets::rows];
    TurnRow *const alone = half + (std::size_t{1} << h % 4) * LowSets::rows;
    for_each_turn([&](std::size_t row, std::size_t turn, RankSet set) {
      alone[row].values[turn] = of_set[set];
    });
    // With every set of the ranks before it.
    for (std::size_t others = 1; others < std::size_t{1} << h % 4; ++others) {
      const TurnRow *const before = half + others * LowSets::rows;
      TurnRow *const both = alone + others * LowSets::rows;
      for (std::size_t row = 0; row < LowSets::rows; ++row) {
        for (std::size_t turn = 0; turn < turned_ranks; ++turn)
          both[row].values[turn] = before[row].values[turn] + alone[row].values[turn];
      }
    }
  }
}

} // namespace toposeat
