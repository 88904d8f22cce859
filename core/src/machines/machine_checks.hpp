// What all machines for large jobs refuse in the same words.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "toposeat/machines/large_machine.hpp"

namespace toposeat {

/// Product of sizes, each at least 1. Throws std::invalid_argument on a zero, or beyond
/// `most_slots`.
inline std::uint32_t checked_slots(const std::vector<std::uint32_t> &sizes) {
  std::uint64_t slots = 1;
  for (const std::uint32_t size : sizes) {
    if (size == 0)
      throw std::invalid_argument("a machine has no level of size 0");
    slots *= size;
    if (slots > most_slots)
      throw std::invalid_argument("a machine of more than " + std::to_string(most_slots) +
                                  " slots");
  }
  return static_cast<std::uint32_t>(slots);
}

/// Throws std::invalid_argument unless all numbers are finite and at least `least`.
inline void check_numbers(const std::vector<double> &numbers, double least, const char *what) {
  for (const double number : numbers) {
    if (!std::isfinite(number) || number < least)
      throw std::invalid_argument(std::string(what) + " out of range");
  }
}

/// Throws std::invalid_argument unless all numbers are finite and greater than 0.
inline void check_capacities(const std::vector<double> &numbers) {
  check_numbers(numbers, 0, "a bandwidth is");
  for (const double number : numbers) {
    if (!(number > 0))
      throw std::invalid_argument("a bandwidth is out of range");
  }
}

} // namespace toposeat
