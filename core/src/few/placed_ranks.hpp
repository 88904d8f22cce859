// The ranks that an enumeration on few devices places, in order, and what they exchange.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "few/last_four.hpp"
#include "toposeat/loads/load_branching.hpp"

namespace toposeat {

/// Talking ranks first, and silent ones so that every device has one; at least one and four in all.
inline std::vector<std::uint32_t> all_ranks(const LoadProblem &problem,
                                            const std::vector<std::uint32_t> &talking) {
  const std::size_t count = std::max<std::size_t>(problem.network.devices, last_ranks + 1);
  std::vector<std::uint32_t> order = talking;
  for (std::uint32_t r = 0; r < count; ++r) {
    if (std::find(talking.begin(), talking.end(), r) == talking.end())
      order.push_back(r);
  }
  return order;
}

inline SmallTable bytes_between(const std::vector<std::uint32_t> &order,
                                const RankTraffic &traffic) {
  std::array<std::size_t, small_width> place{};
  for (std::size_t p = 0; p < order.size(); ++p)
    place[order[p]] = p;
  SmallTable bytes{};
  for (const Flow &flow : traffic.flows)
    bytes[place[flow.source]][place[flow.target]] = flow.bytes;
  return bytes;
}

} // namespace toposeat
