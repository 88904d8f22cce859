// Vectors of doubles and of 64-bit words, for the innermost loops.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/wide.hpp"

#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace toposeat {

inline constexpr std::size_t most_lanes = 4; // of a vector

/// So many lanes that whole vectors cover `count`.
inline constexpr std::size_t whole_lanes(std::size_t count) {
  return (count + most_lanes - 1) / most_lanes * most_lanes;
}

/// Doubles or 64-bit words where vectors begin. What it holds is lost as it grows.
template <class T> class LaneArray {
public:
  void fit(std::size_t count) {
    if (blocks_.size() * most_lanes < count)
      blocks_.resize(whole_lanes(count) / most_lanes);
  }
  [[nodiscard]] T *data() { return blocks_.data()->lanes; }
  [[nodiscard]] const T *data() const { return blocks_.data()->lanes; }
  T &operator[](std::size_t i) { return data()[i]; }
  const T &operator[](std::size_t i) const { return data()[i]; }

private:
  struct alignas(most_lanes * sizeof(T)) Block {
    T lanes[most_lanes] = {};
  };
  std::vector<Block> blocks_ = std::vector<Block>(1);
};

/// What kernels do with vectors of four doubles or four 64-bit words; compilers split them into
/// what the processor has. All is inlined, so that no ABI of vectors is involved.
struct Lanes {
  static constexpr std::size_t bytes = 32;
  static constexpr std::size_t count = bytes / sizeof(double);
  typedef double Doubles __attribute__((vector_size(bytes)));
  typedef std::uint64_t Words __attribute__((vector_size(bytes)));

  static TOPOSEAT_INLINE Doubles load(const double *first) {
    return *reinterpret_cast<const DoublesInMemory *>(first);
  }
  static TOPOSEAT_INLINE Words load(const std::uint64_t *first) {
    return *reinterpret_cast<const WordsInMemory *>(first);
  }
  static TOPOSEAT_INLINE void store(double *first, const Doubles &values) {
    *reinterpret_cast<DoublesInMemory *>(first) = values;
  }
  static TOPOSEAT_INLINE Doubles all(double value) { return Doubles{} + value; }
  static TOPOSEAT_INLINE Words all(std::uint64_t value) { return Words{} + value; }

  /// As doubles, of whole numbers below 2^52: the bits that such a number leaves free make it
  /// 2^52 more.
  static TOPOSEAT_INLINE Doubles doubles(const Words &whole) {
    constexpr std::uint64_t two_to_52 = 0x4330000000000000U;
    return reinterpret_cast<Doubles>(whole | two_to_52) - 0x1p52;
  }

  static TOPOSEAT_INLINE Words bit_counts(const Words &words) {
    return Words{static_cast<std::uint64_t>(std::popcount(words[0])),
                 static_cast<std::uint64_t>(std::popcount(words[1])),
                 static_cast<std::uint64_t>(std::popcount(words[2])),
                 static_cast<std::uint64_t>(std::popcount(words[3]))};
  }

  /// Bit k of lane k.
  static TOPOSEAT_INLINE Words own_bits() { return Words{1, 2, 4, 8}; }
  template <class T> static TOPOSEAT_INLINE T less(const T &a, const T &b) { return a < b ? a : b; }

  /// The least of all lanes, in every lane.
  static TOPOSEAT_INLINE Doubles least_of(const Doubles &all) {
    const Doubles two = less(all, __builtin_shufflevector(all, all, 2, 3, 0, 1));
    return less(two, __builtin_shufflevector(two, two, 1, 0, 3, 2));
  }
  /// The bits of all lanes, in every lane.
  static TOPOSEAT_INLINE Words any_of(const Words &all) {
    const Words two = all | __builtin_shufflevector(all, all, 2, 3, 0, 1);
    return two | __builtin_shufflevector(two, two, 1, 0, 3, 2);
  }

private:
  typedef double DoublesInMemory __attribute__((vector_size(bytes), may_alias));
  typedef std::uint64_t WordsInMemory __attribute__((vector_size(bytes), may_alias));
};

} // namespace toposeat
