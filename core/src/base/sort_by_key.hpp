// Numbers by rising keys, of which there are often but a few different ones.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
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
    if (!sort_few(numbers))
      sort_many(numbers);
  }

private:
  static constexpr std::size_t few = 16;

  struct Kind {
    double key = 0;
    std::size_t count = 0; // then the place of the next one
  };

  /// By counting; false, with nothing done, if there are more different keys.
  bool sort_few(std::vector<std::uint32_t> &numbers) {
    std::array<Kind, few> kinds;
    std::size_t known = 0;
    kind_of_item_.clear();
    for (const auto &[key, number] : items_) {
      std::size_t k = 0;
      while (k < known && kinds[k].key != key)
        ++k;
      if (k == few)
        return false;
      if (k == known)
        kinds[known++] = {key, 0};
      ++kinds[k].count;
      kind_of_item_.push_back(static_cast<std::uint8_t>(k));
    }
    give_places({kinds.data(), known});
    for (std::size_t i = 0; i < items_.size(); ++i)
      numbers[kinds[kind_of_item_[i]].count++] = items_[i].second;
    return true;
  }

  /// Makes each count the place of the kind's first number.
  static void give_places(std::span<Kind> kinds) {
    std::array<std::size_t, few> rising{};
    for (std::size_t k = 0; k < kinds.size(); ++k) { // of so few, by insertion
      std::size_t at = k;
      for (; at > 0 && kinds[rising[at - 1]].key > kinds[k].key; --at)
        rising[at] = rising[at - 1];
      rising[at] = k;
    }
    std::size_t place = 0;
    for (std::size_t k = 0; k < kinds.size(); ++k)
      place += std::exchange(kinds[rising[k]].count, place);
  }

  void sort_many(std::vector<std::uint32_t> &numbers) {
    std::sort(items_.begin(), items_.end());
    for (std::size_t i = 0; i < items_.size(); ++i)
      numbers[i] = items_[i].second;
  }

  std::vector<std::pair<double, std::uint32_t>> items_;
  std::vector<std::uint8_t> kind_of_item_;
};

} // namespace toposeat
