// SPDX-License-Identifier: MIT OR Apache-2.0
#include "tree/rank_sets.hpp"

namespace toposeat {

std::size_t set_count(int ranks, int size) {
  std::size_t count = 1;
  for (int i = 0; i < size; ++i) {
    count = count * static_cast<std::size_t>(ranks - i) / static_cast<std::size_t>(i + 1);
  }
  return count;
}

RankSet silent_ranks(const Qap &traffic) {
  const std::size_t n = traffic.size();
  RankSet all = 0;
  for (std::size_t r = 0; r < n; ++r) {
    bool silent = traffic.free_rank(r);
    for (std::size_t s = 0; s < n && silent; ++s)
      silent = traffic.flow(r, s) == 0 && traffic.flow(s, r) == 0;
    if (silent)
      all |= RankSet{1} << r;
  }
  return all;
}

} // namespace toposeat
