// A set of few flows as bits.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace toposeat {

/// Of flows 0 .. 64 * Words - 1.
template <std::size_t Words> struct FlowSet {
  static constexpr std::size_t bits = 64;
  static constexpr std::size_t most = bits * Words;

  std::array<std::uint64_t, Words> words{};

  void insert(std::uint32_t flow) { words[flow / bits] |= std::uint64_t{1} << flow % bits; }
  void remove(std::uint32_t flow) { words[flow / bits] &= ~(std::uint64_t{1} << flow % bits); }
  [[nodiscard]] bool has(std::uint32_t flow) const {
    return (words[flow / bits] >> flow % bits & 1U) != 0;
  }
  [[nodiscard]] bool empty() const {
    std::uint64_t any = 0;
    for (const std::uint64_t word : words)
      any |= word;
    return any == 0;
  }

  [[nodiscard]] int size() const {
    int count = 0;
    for (const std::uint64_t word : words)
      count += std::popcount(word);
    return count;
  }

  [[nodiscard]] FlowSet operator&(const FlowSet &other) const {
    FlowSet result;
    for (std::size_t w = 0; w < Words; ++w)
      result.words[w] = words[w] & other.words[w];
    return result;
  }
  [[nodiscard]] FlowSet operator|(const FlowSet &other) const {
    FlowSet result;
    for (std::size_t w = 0; w < Words; ++w)
      result.words[w] = words[w] | other.words[w];
    return result;
  }
  [[nodiscard]] FlowSet without(const FlowSet &other) const {
    FlowSet result;
    for (std::size_t w = 0; w < Words; ++w)
      result.words[w] = words[w] & ~other.words[w];
    return result;
  }

  /// Calls `visit(flow)` for each, rising.
  template <class Visit> void for_each(Visit visit) const {
    for (std::size_t w = 0; w < Words; ++w) {
      for (std::uint64_t left = words[w]; left != 0; left &= left - 1)
        visit(static_cast<std::uint32_t>(w * bits) +
              static_cast<std::uint32_t>(std::countr_zero(left)));
    }
  }
};

} // namespace toposeat
