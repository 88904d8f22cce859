// Sets of up to 16 ranks, eight to a row: a row holds the turns of one set.
//
// Turning moves each of the first eight ranks to the next place (7 to 0) and leaves the others
// where they are. Whatever holds of a set and its parts in terms of tables holds of all its turns
// at once: if A and B make up S, then A turned and B turned make up S turned. So one set of eight
// stands for the others, and a table of values is filled eight values at a time.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tree/rank_sets.hpp"

namespace toposeat {

inline constexpr std::size_t turned_ranks = 8; // which ranks turn, and how many turns there are

/// Ranks in a set of eight.
inline std::size_t size_of_eight(RankSet set) {
  // Without an instruction for it, counting bits is a call.
  static constexpr auto ones = [] {
    std::array<std::uint8_t, 256> counts{};
    for (std::size_t each = 1; each < counts.size(); ++each)
      counts[each] = static_cast<std::uint8_t>(counts[each / 2] + each % 2);
    return counts;
  }();
  return ones[set];
}

/// The values of a set turned by 0, 1 ... 7 places, twice: from place t on they are those of the
/// set turned by t.
struct alignas(64) SetRow {
  std::array<double, 2 * turned_ranks> values;
};

/// The same once, for what is not looked up by set.
struct alignas(64) TurnRow {
  std::array<double, turned_ranks> values;

  [[nodiscard]] const double *data() const { return values.data(); }
};

/// Both parts of a split of a set of turning ranks: places of their values behind the first row of
/// sets of their size.
struct LowSplit {
  std::uint16_t right;
  std::uint16_t left;
};

/// Splits of all own sets of one size: of each row so many, from `stride` to `stride`.
struct LowSplits {
  const LowSplit *splits;
  std::size_t count;
  std::size_t stride;
};

/// A set of turning ranks, turned.
inline RankSet turned(RankSet low, std::size_t places) {
  return (low << places | low >> (turned_ranks - places)) & 255U;
}

/// Sets of turning ranks, up to turning. A row's own set is the smallest number among its turns.
class LowSets {
public:
  static constexpr std::size_t sizes = turned_ranks + 1;

  /// The only one there is.
  static const LowSets &all();

  /// Rows of sets of a size.
  [[nodiscard]] std::size_t count(std::size_t size) const { return count_[size]; }
  /// Of the sets of smaller sizes together.
  [[nodiscard]] std::size_t first(std::size_t size) const { return first_[size]; }
  static constexpr std::size_t rows = 36; // of all sizes
  /// A row's own set.
  [[nodiscard]] RankSet own(std::size_t size, std::size_t row) const { return own_[size][row]; }
  /// The set of a size whose value stands there.
  [[nodiscard]] RankSet at(std::size_t size, std::size_t place) const {
    return turned(own_[size][place / (2 * turned_ranks)], place % (2 * turned_ranks));
  }
  /// Where the value of a set stands behind the first row of its size.
  [[nodiscard]] std::size_t place(RankSet low) const { return place_[low]; }

  /// All splits of the own sets of a size with so many ranks on the right; if `lowest`, with the
  /// lowest rank among them.
  [[nodiscard]] LowSplits splits(std::size_t size, std::size_t right, bool lowest) const {
    const Range &range = ranges_[size][right];
    return {splits_.data() + range.begin, lowest ? range.with_lowest : range.count, range.count};
  }

private:
  static constexpr std::size_t most_rows = 10; // of one size

  struct Range {
    std::size_t begin = 0;
    std::size_t count = 0;       // of each row
    std::size_t with_lowest = 0; // of these; they come first
  };

  LowSets();
  void list_splits(std::size_t size, std::size_t right);

  std::array<std::uint16_t, 256> place_{};
  std::array<std::uint8_t, sizes> count_{};
  std::array<std::uint8_t, sizes> first_{};
  std::array<std::array<std::uint8_t, most_rows>, sizes> own_{};
  std::array<std::array<Range, sizes>, sizes> ranges_{}; // by size and size of the right part
  std::vector<LowSplit> splits_;
};

/// Rows of all sets of ranks by size, for so many ranks of which the last ones may be silent: of
/// those it matters only how many a set has.
class SetRows {
public:
  /// Made when a thread first asks for it. Where ranks are fewer than those that turn, some rows
  /// are of ranks that do not exist.
  static const SetRows &of(int ranks, int silent);

  SetRows(int ranks, int silent);

  /// Sets of the ranks that do not turn, each standing for those that differ in silent ranks alone.
  [[nodiscard]] std::span<const std::uint8_t> highs() const { return highs_; }
  /// The set that stands for another one.
  [[nodiscard]] RankSet standing_for(RankSet high) const { return standing_[high]; }
  /// The part of `high` that a part of what stands for it stands for.
  [[nodiscard]] RankSet within(RankSet high, RankSet part) const;

  /// Of the sets that stand for others, those within `high` of a size; if `lowest`, with the lowest
  /// rank of it.
  [[nodiscard]] std::span<const std::uint8_t> parts(RankSet high, std::size_t size,
                                                    bool lowest) const {
    const Range &range = ranges_[high][size];
    return {parts_.data() + range.begin, lowest ? range.with_lowest : range.count};
  }

  /// Of the table of all sets of `size`.
  [[nodiscard]] std::size_t rows(int size) const { return rows_[static_cast<std::size_t>(size)]; }
  /// First rows of the sets of `size`, by high ranks.
  [[nodiscard]] const std::array<std::uint16_t, 256> &first_rows(int size) const {
    return first_[static_cast<std::size_t>(size)];
  }
  /// First row of the sets of `size` with these high ranks.
  [[nodiscard]] std::size_t first_row(int size, RankSet high) const {
    return first_[static_cast<std::size_t>(size)][high];
  }
  /// Where the value of a set stands in the table of its size.
  [[nodiscard]] std::size_t place(int size, RankSet set) const {
    return 2 * turned_ranks * first_row(size, set >> turned_ranks) +
           LowSets::all().place(set & 255U);
  }

private:
  static constexpr std::size_t sizes = max_set_ranks - turned_ranks + 1; // of high sets

  struct Range {
    std::uint16_t begin = 0;
    std::uint8_t count = 0;
    std::uint8_t with_lowest = 0; // of these; they come first
  };

  void list_parts(RankSet high);
  void number_rows(std::size_t end);

  std::vector<std::uint8_t> highs_;
  RankSet heard_; // high ranks that are not silent
  std::array<std::uint8_t, 256> standing_{};
  std::vector<std::uint8_t> parts_;
  std::array<std::array<Range, sizes>, 256> ranges_{};
  std::array<std::size_t, max_set_ranks + 1> rows_{};
  std::array<std::array<std::uint16_t, 256>, max_set_ranks + 1> first_{};
};

} // namespace toposeat
