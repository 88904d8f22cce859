// The least of many doubles, in vectors.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <span>

namespace toposeat {

/// Infinite if there is none. Several minima at once: one alone waits for each comparison.
inline double least_of(std::span<const double> values) {
  constexpr std::size_t lanes = 8;
  std::array<double, lanes> least;
  least.fill(std::numeric_limits<double>::infinity());
  const double *value = values.data();
  const double *const end = value + values.size();
  for (; end - value >= static_cast<std::ptrdiff_t>(lanes); value += lanes) {
    for (std::size_t k = 0; k < lanes; ++k)
      least[k] = value[k] < least[k] ? value[k] : least[k];
  }
  for (std::size_t k = 0; value != end; ++value, ++k)
    least[k] = *value < least[k] ? *value : least[k];
  return *std::min_element(least.begin(), least.end());
}

} // namespace toposeat
