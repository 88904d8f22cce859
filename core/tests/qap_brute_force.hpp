// Small quadratic assignment problems by trying every placement.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <numeric>

#include "toposeat/problem/qap.hpp"

namespace toposeat::testing {

inline Assignment identity(std::size_t size) {
  Assignment placement(size);
  std::iota(placement.begin(), placement.end(), 0U);
  return placement;
}

/// Whether every rank has a device of its own that it may use.
inline bool keeps_rules(const Qap &qap, const Assignment &placement) {
  Assignment sorted = placement;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != identity(qap.size()))
    return false;
  for (std::size_t r = 0; r < placement.size(); ++r) {
    if (!qap.may_use(r, placement[r]))
      return false;
  }
  return true;
}

/// The least cost of all placements that keep the rules.
inline double brute_force(const Qap &qap) {
  Assignment placement = identity(qap.size());
  double best = unlimited;
  do {
    if (keeps_rules(qap, placement))
      best = std::min(best, qap_cost(qap, placement));
  } while (std::next_permutation(placement.begin(), placement.end()));
  return best;
}

} // namespace toposeat::testing
