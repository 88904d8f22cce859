// SPDX-License-Identifier: MIT OR Apache-2.0
#include "tree/set_rows.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

namespace toposeat {

const LowSets &LowSets::all() {
  static const LowSets sets;
  return sets;
}

LowSets::LowSets() {
  std::array<bool, 256> known{};
  for (RankSet low = 0; low < known.size(); ++low) {
    if (known[low])
      continue;
    const std::size_t size = size_of_eight(low);
    const std::size_t row = count_[size]++;
    own_[size][row] = static_cast<std::uint8_t>(low);
    for (std::size_t turn = turned_ranks; turn-- > 0;) { // the least turn that gives a set remains
      known[turned(low, turn)] = true;
      place_[turned(low, turn)] = static_cast<std::uint16_t>(2 * turned_ranks * row + turn);
    }
  }
  for (std::size_t size = 0; size < sizes; ++size) {
    if (size > 0)
      first_[size] = static_cast<std::uint8_t>(first_[size - 1] + count_[size - 1]);
    for (std::size_t right = 0; right <= size; ++right)
      list_splits(size, right);
  }
}

void LowSets::list_splits(std::size_t size, std::size_t right) {
  Range &range = ranges_[size][right];
  range.begin = splits_.size();
  for (std::size_t row = 0; row < count_[size]; ++row) {
    const RankSet own = own_[size][row];
    const RankSet lowest = own & (~own + 1);
    const std::size_t before = splits_.size();
    for (const bool with_lowest : {true, false}) {
      for (RankSet part = own;; part = (part - 1) & own) {
        if (size_of_eight(part) == right && ((part & lowest) != 0) == with_lowest)
          splits_.push_back({place_[part], place_[own ^ part]});
        if (part == 0)
          break;
      }
      if (with_lowest)
        range.with_lowest = splits_.size() - before;
    }
    range.count = splits_.size() - before;
  }
}

const SetRows &SetRows::of(int ranks, int silent) {
  thread_local std::map<std::pair<int, int>, SetRows> known;
  return known.try_emplace({ranks, silent}, ranks, silent).first->second;
}

SetRows::SetRows(int ranks, int silent) : heard_(0) {
  const int high = std::max(0, ranks - static_cast<int>(turned_ranks));
  const int quiet = std::min(silent, high);
  heard_ = (RankSet{1} << (high - quiet)) - 1;
  const RankSet end = RankSet{1} << high;
  for (RankSet set = 0; set < end; ++set) {
    // The lowest silent ranks stand for as many others.
    const int count = std::popcount(set & ~heard_);
    standing_[set] =
        static_cast<std::uint8_t>((set & heard_) | ((RankSet{1} << count) - 1) << (high - quiet));
    if (standing_[set] == set)
      highs_.push_back(static_cast<std::uint8_t>(set));
  }
  for (const std::uint8_t set : highs_)
    list_parts(set);
  number_rows(end);
}

RankSet SetRows::within(RankSet high, RankSet part) const {
  RankSet chosen = part & heard_;
  RankSet silent = high & ~heard_;
  for (RankSet count = part & ~heard_; count != 0; count &= count - 1, silent &= silent - 1)
    chosen |= silent & (~silent + 1);
  return chosen;
}

void SetRows::list_parts(RankSet high) {
  const RankSet lowest = high & (~high + 1);
  for (std::size_t size = 0; size <= size_of_eight(high); ++size) {
    Range &range = ranges_[high][size];
    range.begin = static_cast<std::uint16_t>(parts_.size());
    for (const bool with_lowest : {true, false}) {
      for (RankSet part = high;; part = (part - 1) & high) {
        if (size_of_eight(part) == size && standing_[part] == part &&
            ((part & lowest) != 0) == with_lowest)
          parts_.push_back(static_cast<std::uint8_t>(part));
        if (part == 0)
          break;
      }
      if (with_lowest)
        range.with_lowest = static_cast<std::uint8_t>(parts_.size() - range.begin);
    }
    range.count = static_cast<std::uint8_t>(parts_.size() - range.begin);
  }
}

/// `end`: of the numbers of high sets.
void SetRows::number_rows(std::size_t end) {
  for (std::size_t size = 0; size <= max_set_ranks; ++size) {
    std::size_t next = 0;
    for (const std::uint8_t set : highs_) {
      first_[size][set] = static_cast<std::uint16_t>(next);
      if (size_of_eight(set) <= size && size - size_of_eight(set) <= turned_ranks)
        next += LowSets::all().count(size - size_of_eight(set));
    }
    rows_[size] = next;
    for (std::size_t set = 0; set < end; ++set)
      first_[size][set] = first_[size][standing_[set]];
  }
}

} // namespace toposeat
