// SPDX-License-Identifier: MIT OR Apache-2.0
#include "rank_sets.hpp"

#include <algorithm>
#include <bit>

namespace toposeat {
std::size_t set_count(int ranks, int size) {
  std::size_t count = 1;
  for (int i = 0; i < size; ++i) {
    count = count * static_cast<std::size_t>(ranks - i) / static_cast<std::size_t>(i + 1);
  }
  return count;
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
