// SPDX-License-Identifier: MIT OR Apache-2.0
#include "rank_sets.hpp"

#include <bit>

namespace toposeat {
namespace {

struct PatternTables {
  // [size][chosen][with_lowest]
  std::array<std::array<std::array<std::vector<std::uint16_t>, 2>, max_set_ranks + 1>,
             max_set_ranks + 1>
      patterns;
};

std::vector<std::uint16_t> number_sets() {
  std::vector<std::uint16_t> numbers(std::size_t{1} << max_set_ranks);
  std::array<std::uint16_t, max_set_ranks + 1> next{};
  for (std::size_t set = 0; set < numbers.size(); ++set) {
    numbers[set] = next[static_cast<std::size_t>(std::popcount(set))]++;
  }
  return numbers;
}

} // namespace

const std::vector<std::uint16_t> &set_numbers() {
  static const std::vector<std::uint16_t> numbers = number_sets();
  return numbers;
}

std::size_t set_count(int ranks, int size) {
  std::size_t count = 1;
  for (int i = 0; i < size; ++i) {
    count = count * static_cast<std::size_t>(ranks - i) / static_cast<std::size_t>(i + 1);
  }
  return count;
}

const std::vector<std::uint16_t> &subset_patterns(int size, int chosen, bool with_lowest) {
  thread_local PatternTables tables;
  auto &patterns = tables.patterns[static_cast<std::size_t>(size)][static_cast<std::size_t>(chosen)]
                                  [with_lowest ? 1 : 0];
  if (patterns.empty()) {
    for_each_set(size, chosen, [&](RankSet set) {
      if (!with_lowest || (set & 1U) != 0)
        patterns.push_back(static_cast<std::uint16_t>(set));
    });
  }
  return patterns;
}

BorderTraffic::BorderTraffic(const Matrix &flow)
    : all_(static_cast<RankSet>((std::uint64_t{1} << flow.n) - 1)), rows_(flow.n) {
  for (std::size_t r = 0; r < flow.n; ++r) {
    for (std::size_t byte = 0; byte < 2; ++byte) {
      for (std::size_t bits = 1; bits < 256; ++bits) {
        const std::size_t s = 8 * byte + static_cast<std::size_t>(std::countr_zero(bits));
        Crossing crossing = rows_[r][byte][bits & (bits - 1)];
        if (s < flow.n) {
          crossing.out += flow(r, s);
          crossing.in += flow(s, r);
        }
        rows_[r][byte][bits] = crossing;
      }
    }
  }
}

Crossing BorderTraffic::of(RankSet set) const {
  Crossing total;
  const RankSet others = all_ & ~set;
  for (RankSet rest = set; rest != 0; rest &= rest - 1) {
    const Row &row = rows_[static_cast<std::size_t>(std::countr_zero(rest))];
    const Crossing &low = row[0][others & 255U];
    const Crossing &high = row[1][others >> 8U];
    total.out += low.out + high.out;
    total.in += low.in + high.in;
  }
  return total;
}

} // namespace toposeat
