// Parts of an enumeration where something that was left out may be as good as the best.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "few/last_four.hpp"

namespace toposeat {

/// While the maximum is searched, these parts of the tree are marked: only they are looked at again
/// for the sum. A part is what the ranks that are placed one by one leave open.
class TieParts {
public:
  /// All parts below what the first ranks have.
  void mark(std::span<const std::uint32_t> fixed) {
    const auto [first, end] = below(fixed);
    for (std::size_t part = first; part < end; ++part)
      parts_.set(part);
  }

  [[nodiscard]] bool any(std::span<const std::uint32_t> fixed) const {
    const auto [first, end] = below(fixed);
    for (std::size_t part = first; part < end; ++part) {
      if (parts_.test(part))
        return true;
    }
    return false;
  }

  void mark_all() { parts_.set(); }
  void clear() { parts_.reset(); }

private:
  static constexpr std::size_t most_depth = small_width - last_ranks;
  static constexpr std::size_t parts = small_width * small_width * small_width * small_width;
  static_assert(most_depth == 4);

  [[nodiscard]] static std::pair<std::size_t, std::size_t>
  below(std::span<const std::uint32_t> fixed) {
    std::size_t first = 0;
    std::size_t count = parts;
    for (const std::uint32_t device : fixed) {
      count /= small_width;
      first += device * count;
    }
    return {first, first + count};
  }

  std::bitset<parts> parts_;
};

} // namespace toposeat
