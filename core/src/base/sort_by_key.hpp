// Numbers by rising keys.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace toposeat {

/// Sorts rising numbers by the key of each; equal keys stay in the order of their numbers. All
/// memory is kept from one sort to the next.
class KeySorter {
public:
  /// `numbers` rise, each is an index of `keys`, and no key is NaN.
  void sort(std::vector<std::uint32_t> &numbers, const std::vector<double> &keys) {
    const auto before = [&](std::uint32_t a, std::uint32_t b) { return keys[a] < keys[b]; };
    if (std::is_sorted(numbers.begin(), numbers.end(), before))
      return;
    items_.clear();
    for (const std::uint32_t number : numbers)
      items_.emplace_back(keys[number], number);
    std::sort(items_.begin(), items_.end());
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = items_[i].second;
  }

private:
  std::vector<std::pair<double, std::uint32_t>> items_;
};

} // namespace toposeat
