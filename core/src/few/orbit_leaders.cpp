// SPDX-License-Identifier: MIT OR Apache-2.0
#include "few/orbit_leaders.hpp"

#include <bit>

#include "few/last_four.hpp"

namespace toposeat {

std::uint32_t OrbitLeaders::least(std::span<const std::uint32_t> fixed, std::uint32_t set,
                                  bool &symmetric) {
  if (!machine_) {
    symmetric = false;
    return set;
  }
  std::uint64_t key = set;
  for (const std::uint32_t device : fixed)
    key = key << 4U | (8 + device);
  const auto [known, is_new] = known_.try_emplace(key, 0);
  if (is_new) {
    std::vector<std::uint32_t> all;
    for (std::uint32_t left = set; left != 0; left &= left - 1)
      all.push_back(static_cast<std::uint32_t>(std::countr_zero(left)));
    for (const std::uint32_t device : machine_->representatives(fixed, all))
      known->second |= 1U << device;
  }
  symmetric = known->second != set;
  return known->second;
}

std::uint32_t OrbitLeaders::above_twins(std::span<const std::uint32_t> fixed,
                                        std::size_t place) const {
  std::uint32_t set = ~0U;
  if ((with_earlier_ >> place & 1U) == 0)
    return set;
  for (std::size_t k = 0; k < fixed.size(); ++k) {
    if (twins(k, place))
      set &= ~((2U << fixed[k]) - 1);
  }
  return set;
}

std::uint32_t OrbitLeaders::ways_against_twins(std::size_t first) const {
  std::uint32_t ways = 0;
  for (std::size_t way = 0; way < last_ways; ++way) {
    for (std::size_t k = 0; k < last_ranks; ++k) {
      for (std::size_t l = k + 1; l < last_ranks; ++l) {
        if (twins(first + k, first + l) && last_seat(way, k) > last_seat(way, l))
          ways |= 1U << way;
      }
    }
  }
  return ways;
}

} // namespace toposeat
