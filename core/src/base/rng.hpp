// A small seeded generator with the same stream on every platform.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace toposeat {

/// The last steps of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): close numbers become far ones,
/// and different ones stay different.
inline std::uint64_t mixed_bits(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31U);
}

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). The standard library's distributions differ
/// between implementations; results here must not.
class Rng {
public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() { return mixed_bits(state_ += 0x9e3779b97f4a7c15ULL); }

  /// Uniform in 0..bound-1 (bound >= 1); the bias of the multiply-shift is below 2^-32.
  std::uint32_t below(std::size_t bound) {
    return static_cast<std::uint32_t>(((next() >> 32) * static_cast<std::uint64_t>(bound)) >> 32);
  }

  /// Uniform in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  /// A uniform random order of 0..size-1.
  std::vector<std::uint32_t> permutation(std::size_t size) {
    std::vector<std::uint32_t> order(size);
    std::iota(order.begin(), order.end(), 0U);
    for (std::size_t i = size; i > 1; --i) {
      std::swap(order[i - 1], order[below(i)]);
    }
    return order;
  }

private:
  std::uint64_t state_;
};

} // namespace toposeat
