// Rows of turned sets: every set and every split of it is there once.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <bit>
#include <set>
#include <utility>

#include "catch.hpp"
#include "tree/set_rows.hpp"

using namespace toposeat;

namespace {

std::size_t size_of(RankSet set) { return static_cast<std::size_t>(std::popcount(set)); }

std::size_t choices(std::size_t of, std::size_t chosen) {
  return set_count(static_cast<int>(of), static_cast<int>(chosen));
}

} // namespace

TEST_CASE("sets of turning ranks: each has one place, and is found there", "[map]") {
  const LowSets &sets = LowSets::all();
  std::set<std::pair<std::size_t, std::size_t>> places;
  for (RankSet low = 0; low < 256; ++low) {
    const std::size_t place = sets.place(low);
    CHECK(sets.at(size_of(low), place) == low);
    CHECK(place / (2 * turned_ranks) < sets.count(size_of(low)));
    CHECK(places.emplace(size_of(low), place).second);
  }
  CHECK(turned(0b10000001, 1) == 0b00000011);
}

TEST_CASE("splits of turning ranks: all of them, those with the lowest rank first", "[map]") {
  const LowSets &sets = LowSets::all();
  for (std::size_t size = 0; size <= turned_ranks; ++size) {
    for (std::size_t right = 0; right <= size; ++right) {
      const LowSplits all = sets.splits(size, right, false);
      REQUIRE(all.count == choices(size, right));
      const std::size_t lowest = sets.splits(size, right, true).count;
      CHECK(lowest == (right == 0 || size == 0 ? 0 : choices(size - 1, right - 1)));
      for (std::size_t row = 0; row < sets.count(size); ++row) {
        const RankSet own = sets.own(size, row);
        std::set<RankSet> seen;
        for (std::size_t i = 0; i < all.count; ++i) {
          const LowSplit &split = all.splits[row * all.stride + i];
          const RankSet part = sets.at(right, split.right);
          const RankSet rest = sets.at(size - right, split.left);
          CHECK(((part & rest) == 0 && (part | rest) == own));
          CHECK(((part & own & (~own + 1)) != 0) == (i < lowest));
          seen.insert(part);
        }
        CHECK(seen.size() == all.count);
      }
    }
  }
}

TEST_CASE("rows of all sets: as many as there are, and none twice", "[map]") {
  for (const int ranks : {3, 8, 11, 16}) {
    const SetRows rows(ranks, 0);
    for (int size = 0; size <= ranks; ++size) {
      std::set<std::size_t> places;
      for_each_set(ranks, size, [&](RankSet set) {
        const std::size_t place = rows.place(size, set);
        CHECK(place / (2 * turned_ranks) < rows.rows(size));
        places.insert(place);
      });
      CHECK(places.size() == set_count(ranks, size));
    }
  }
}

TEST_CASE("silent ranks stand for each other", "[map]") {
  const SetRows rows(14, 4); // ranks 10 to 13 are silent: 2 to 5 of those that do not turn
  CHECK(rows.highs().size() == 4 * 5);
  CHECK(rows.place(3, 0b10'0100'0000'0001) == rows.place(3, 0b00'1100'0000'0001));
  CHECK(rows.place(3, 0b10'0100'0000'0001) != rows.place(3, 0b00'0101'0000'0001));
  const RankSet high = 0b110110; // stands behind 0b011110
  CHECK(rows.standing_for(high) == 0b011110);
  CHECK(rows.within(high, 0b001110) == 0b010110);
  for (const std::uint8_t standing : rows.highs()) {
    std::size_t parts = 0;
    for (std::size_t size = 0; size <= size_of(standing); ++size) {
      for (const std::uint8_t part : rows.parts(standing, size, false)) {
        CHECK((part & ~standing) == 0);
        CHECK(rows.standing_for(part) == part);
        ++parts;
      }
    }
    const auto heard = std::popcount(RankSet{standing} & 0b11U);
    const auto silent = std::popcount(RankSet{standing} >> 2U);
    CHECK(parts == (std::size_t{1} << heard) * (static_cast<std::size_t>(silent) + 1));
  }
}
