// SPDX-License-Identifier: MIT OR Apache-2.0
#include "rank_sets.hpp"

#include <algorithm>
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

namespace {

/// C(n, k) for n < 16 and k <= 16.
constexpr auto choices = [] {
  std::array<std::array<std::uint16_t, 17>, 16> table{};
  for (std::size_t n = 0; n < 16; ++n) {
    table[n][0] = 1;
    for (std::size_t k = 1; k <= n; ++k)
      table[n][k] = static_cast<std::uint16_t>(table[n - 1][k - 1] + (k < n ? table[n - 1][k] : 0));
  }
  return table;
}();

} // namespace

SplitNumbers::SplitNumbers(RankSet set, int right) : right_(right) {
  std::array<std::size_t, size> member;
  for (std::size_t &each : member) {
    each = static_cast<std::size_t>(std::countr_zero(set));
    set &= set - 1;
  }
  constexpr std::array<std::uint8_t, 16> lowest{0, 0, 1, 0, 2, 0, 1, 0, 3, 0, 1, 0, 2, 0, 1, 0};
  constexpr std::array<std::uint8_t, 16> highest{0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3};
  for (std::size_t part = 0; part < (right == 4 ? 1 : 2); ++part) {
    low_[part][0] = high_[part][0] = 0;
    for (std::size_t bits = 1; bits < 16; ++bits) {
      const std::size_t top = highest[bits];
      low_[part][bits] = static_cast<std::uint16_t>(low_[part][bits ^ (std::size_t{1} << top)] +
                                                    choices[member[top]][ones_[bits]]);
      // Members of the second four come after those of the first four that are chosen.
      const int chosen = part == 0 ? right : size - right;
      const int place = std::max(0, chosen - ones_[bits] + 1); // of the lowest
      high_[part][bits] = static_cast<std::uint16_t>(
          high_[part][bits & (bits - 1)] +
          choices[member[4 + std::size_t{lowest[bits]}]][static_cast<std::size_t>(place)]);
    }
  }
}

SilentRanks::SilentRanks(const Qap &traffic) {
  const std::size_t n = traffic.size();
  for (std::size_t r = 0; r < n; ++r) {
    bool silent = traffic.free_rank(r);
    for (std::size_t s = 0; s < n && silent; ++s)
      silent = traffic.flow(r, s) == 0 && traffic.flow(s, r) == 0;
    if (silent)
      all_ |= RankSet{1} << r;
  }
  if (std::popcount(all_) == 1)
    all_ = 0;
  RankSet rest = all_;
  for (std::size_t count = 1; rest != 0; ++count, rest &= rest - 1)
    lowest_[count] = lowest_[count - 1] | (rest & (~rest + 1));
}

BorderTraffic::BorderTraffic(const Matrix &flow) {
  const std::size_t n = flow.n;
  std::vector<Crossing> of_rank(max_set_ranks);
  for (std::size_t r = 0; r < n; ++r) {
    for (std::size_t s = 0; s < n; ++s) {
      of_rank[r].out += flow(r, s);
      of_rank[r].in += flow(s, r);
      total_ += flow(r, s);
    }
  }
  const auto both = [&](std::size_t r, std::size_t s) {
    return r < n && s < n ? flow(r, s) + flow(s, r) : 0;
  };
  for (std::size_t bits = 1; bits < 256; ++bits) {
    const auto lowest = static_cast<std::size_t>(std::countr_zero(bits));
    const std::size_t rest = bits & (bits - 1);
    for (std::size_t byte = 0; byte < 2; ++byte) {
      const std::size_t r = 8 * byte + lowest;
      Half half = halves_[byte][rest];
      half.all.out += of_rank[r].out;
      half.all.in += of_rank[r].in;
      for (std::size_t others = rest; others != 0; others &= others - 1)
        half.inside += both(r, 8 * byte + static_cast<std::size_t>(std::countr_zero(others)));
      halves_[byte][bits] = half;
    }
  }
  for (std::size_t first = 0; first < 2; ++first) {
    for (std::size_t second = 0; second < 2; ++second) {
      auto &across = across_[first][second];
      for (std::size_t bits = 1; bits < 256; ++bits) {
        // The highest member of the four in the first half, or of those in the second.
        const bool of_first = bits >= 16;
        const std::size_t place = std::bit_width(of_first ? bits >> 4U : bits) - 1;
        const std::size_t rest = bits ^ (std::size_t{1} << (of_first ? place + 4 : place));
        across[bits] = across[rest];
        for (std::size_t others = of_first ? bits & 15U : 0; others != 0; others &= others - 1)
          across[bits] += both(4 * first + place,
                               8 + 4 * second + static_cast<std::size_t>(std::countr_zero(others)));
      }
    }
  }
}

/// What the members send and receive, less what stays among them.
Crossing BorderTraffic::of(RankSet set) const {
  const Half &low = halves_[0][set & 255U];
  const Half &high = halves_[1][set >> 8U];
  const RankSet first = set & 255U;
  const RankSet second = set >> 8U;
  const double inside =
      low.inside + high.inside + across_[0][0][(first & 15U) << 4U | (second & 15U)] +
      across_[0][1][(first & 15U) << 4U | second >> 4U] +
      across_[1][0][(first & 240U) | (second & 15U)] + across_[1][1][(first & 240U) | second >> 4U];
  // Bytes are whole and differences exact; of other numbers nothing but rounding may be left.
  const double noise = 1e-13 * total_;
  const double out = low.all.out + high.all.out - inside;
  const double in = low.all.in + high.all.in - inside;
  return {out > noise ? out : 0, in > noise ? in : 0};
}

} // namespace toposeat
