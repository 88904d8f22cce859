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
    for (std::size_t r = 0; r < 8; ++r)
      across_[r][bits] = across_[r][rest] + both(r, 8 + lowest);
  }
}

/// What the members send and receive, less what stays among them.
Crossing BorderTraffic::of(RankSet set) const {
  const Half &low = halves_[0][set & 255U];
  const Half &high = halves_[1][set >> 8U];
  double inside = low.inside + high.inside;
  for (RankSet rest = set & 255U; rest != 0; rest &= rest - 1)
    inside += across_[static_cast<std::size_t>(std::countr_zero(rest))][set >> 8U];
  // Bytes are whole and differences exact; of other numbers nothing but rounding may be left.
  const double noise = 1e-13 * total_;
  const double out = low.all.out + high.all.out - inside;
  const double in = low.all.in + high.all.in - inside;
  return {out > noise ? out : 0, in > noise ? in : 0};
}

} // namespace toposeat
