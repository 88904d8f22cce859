// Vectors of doubles and of 64-bit words, for kernels that are compiled for several widths.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/wide.hpp"

namespace toposeat {

inline constexpr std::size_t most_lanes = 8; // of the widest vectors

/// So many lanes that whole vectors cover `count`.
inline constexpr std::size_t whole_lanes(std::size_t count) {
  return (count + most_lanes - 1) / most_lanes * most_lanes;
}

/// Doubles or 64-bit words where the widest vectors begin. What it holds is lost as it grows.
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

/// A vector of so many bytes, as a value and as what memory of its lanes is read as.
template <std::size_t Bytes> struct VectorTypes;
template <> struct VectorTypes<16> {
  typedef double Doubles __attribute__((vector_size(16)));
  typedef std::uint64_t Words __attribute__((vector_size(16)));
  typedef double DoublesInMemory __attribute__((vector_size(16), may_alias));
  typedef std::uint64_t WordsInMemory __attribute__((vector_size(16), may_alias));
};
template <> struct VectorTypes<32> {
  typedef double Doubles __attribute__((vector_size(32)));
  typedef std::uint64_t Words __attribute__((vector_size(32)));
  typedef double DoublesInMemory __attribute__((vector_size(32), may_alias));
  typedef std::uint64_t WordsInMemory __attribute__((vector_size(32), may_alias));
};
template <> struct VectorTypes<64> {
  typedef double Doubles __attribute__((vector_size(64)));
  typedef std::uint64_t Words __attribute__((vector_size(64)));
  typedef double DoublesInMemory __attribute__((vector_size(64), may_alias));
  typedef std::uint64_t WordsInMemory __attribute__((vector_size(64), may_alias));
};

/// What kernels do with vectors of `Bytes`. They should not be wider than the processor's: GCC
/// takes some operations on such apart, lane by lane.
template <std::size_t Bytes> struct Lanes : VectorTypes<Bytes> {
  static constexpr std::size_t count = Bytes / sizeof(double);
  using typename VectorTypes<Bytes>::Doubles;
  using typename VectorTypes<Bytes>::Words;

  static TOPOSEAT_INLINE Doubles load(const double *first) {
    return *reinterpret_cast<const typename VectorTypes<Bytes>::DoublesInMemory *>(first);
  }
  static TOPOSEAT_INLINE Words load(const std::uint64_t *first) {
    return *reinterpret_cast<const typename VectorTypes<Bytes>::WordsInMemory *>(first);
  }
  static TOPOSEAT_INLINE void store(double *first, const Doubles &values) {
    *reinterpret_cast<typename VectorTypes<Bytes>::DoublesInMemory *>(first) = values;
  }
  static TOPOSEAT_INLINE Doubles all(double value) { return Doubles{} + value; }
  static TOPOSEAT_INLINE Words all(std::uint64_t value) { return Words{} + value; }

  /// As doubles, of whole numbers below 2^52: the bits that such a number leaves free make it
  /// 2^52 more.
  static TOPOSEAT_INLINE Doubles doubles(const Words &whole) {
    constexpr std::uint64_t two_to_52 = 0x4330000000000000U;
    return reinterpret_cast<Doubles>(whole | two_to_52) - 0x1p52;
  }

  /// Bit k of lane k.
  static TOPOSEAT_INLINE Words own_bits() {
    Words result = {};
    for (std::size_t k = 0; k < count; ++k)
      result[k] = std::uint64_t{1} << k;
    return result;
  }
  template <class T> static TOPOSEAT_INLINE T less(const T &a, const T &b) { return a < b ? a : b; }

  /// The least of all lanes, in every lane.
  static TOPOSEAT_INLINE Doubles least_of(const Doubles &values) { return reduced<Less>(values); }
  /// The bits of all lanes, in every lane.
  static TOPOSEAT_INLINE Words any_of(const Words &words) { return reduced<Or>(words); }

private:
  struct Less {
    static TOPOSEAT_INLINE Doubles join(const Doubles &a, const Doubles &b) { return less(a, b); }
  };
  struct Or {
    static TOPOSEAT_INLINE Words join(const Words &a, const Words &b) { return a | b; }
  };

  template <class Joint, class T> static TOPOSEAT_INLINE T reduced(const T &all) {
    if constexpr (count == 2) {
      return Joint::join(all, __builtin_shufflevector(all, all, 1, 0));
    } else if constexpr (count == 4) {
      const T two = Joint::join(all, __builtin_shufflevector(all, all, 2, 3, 0, 1));
      return Joint::join(two, __builtin_shufflevector(two, two, 1, 0, 3, 2));
    } else {
      const T four = Joint::join(all, __builtin_shufflevector(all, all, 4, 5, 6, 7, 0, 1, 2, 3));
      const T two = Joint::join(four, __builtin_shufflevector(four, four, 2, 3, 0, 1, 6, 7, 4, 5));
      return Joint::join(two, __builtin_shufflevector(two, two, 1, 0, 3, 2, 5, 4, 7, 6));
    }
  }
};

} // namespace toposeat
