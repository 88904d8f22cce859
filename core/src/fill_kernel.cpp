// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fill_kernel.hpp"

#include <bit>
#include <limits>

#include "wide.hpp"

namespace toposeat {
namespace {

constexpr std::size_t lanes = 4;
static_assert(column_block % lanes == 0);

/// GCC and Clang split a vector into what the processor has.
typedef double Doubles __attribute__((vector_size(8 * lanes)));
typedef std::int64_t Whole __attribute__((vector_size(8 * lanes)));
typedef std::int32_t Counts __attribute__((vector_size(4 * lanes)));
typedef double AnyDoubles __attribute__((vector_size(8 * lanes), aligned(8), may_alias));
typedef std::int64_t AnyWhole __attribute__((vector_size(8 * lanes), aligned(8), may_alias));
typedef std::int32_t AnyCounts __attribute__((vector_size(4 * lanes), aligned(4), may_alias));

TOPOSEAT_INLINE Doubles load(const double *first) {
  return *reinterpret_cast<const AnyDoubles *>(first);
}
TOPOSEAT_INLINE Doubles load(const std::int32_t *first) {
  const Counts counts = *reinterpret_cast<const AnyCounts *>(first);
  return __builtin_convertvector(counts, Doubles);
}
TOPOSEAT_INLINE void store(double *first, const Doubles &values) {
  *reinterpret_cast<AnyDoubles *>(first) = values;
}

/// Equal shares of what columns have left. One that rounding left with nothing or less has next to
/// nothing, one without growing flows an infinite share.
TOPOSEAT_INLINE Doubles shares_of(const Doubles &left, const Doubles &growing) {
  const Doubles least = Doubles{} + std::numeric_limits<double>::min();
  return (left > least ? left : least) / growing;
}

TOPOSEAT_INLINE double least_lane(const Doubles &a) {
  double least = a[0];
  for (std::size_t k = 1; k < lanes; ++k)
    least = a[k] < least ? a[k] : least;
  return least;
}

template <std::size_t Words>
TOPOSEAT_INLINE void count_growing(const FillColumns<Words> &columns,
                                   const FlowSet<Words> &growing) {
  for (std::size_t c = 0; c < columns.count; ++c) {
    std::int32_t count = 0;
    for (std::size_t w = 0; w < Words; ++w)
      count += std::popcount(columns.users[c].words[w] & growing.words[w]);
    columns.growing[c] = count;
  }
}

template <std::size_t Words>
TOPOSEAT_INLINE double enter(const FillColumns<Words> &columns, const FlowSet<Words> &growing,
                             const double *left) {
  count_growing(columns, growing);
  Doubles least = Doubles{} + std::numeric_limits<double>::infinity();
  for (std::size_t c = 0; c < columns.count; c += lanes) {
    const Doubles count = load(columns.growing + c);
    const Doubles shares = shares_of(load(left + c), count);
    store(columns.were_growing + c, count);
    store(columns.shares + c, shares);
    least = shares < least ? shares : least;
  }
  return least_lane(least);
}

template <std::size_t Words>
TOPOSEAT_INLINE double advance(const FillColumns<Words> &columns, const FlowSet<Words> &growing,
                               double level, const double *left, double *next) {
  count_growing(columns, growing);
  Doubles least = Doubles{} + std::numeric_limits<double>::infinity();
  for (std::size_t c = 0; c < columns.count; c += lanes) {
    const Doubles count = load(columns.growing + c);
    const Doubles taken = (load(columns.were_growing + c) - count) * level;
    const Doubles remains = load(left + c) - taken;
    const Doubles shares = shares_of(remains, count);
    store(next + c, remains);
    store(columns.were_growing + c, count);
    store(columns.shares + c, shares);
    least = shares < least ? shares : least;
  }
  return least_lane(least);
}

/// Of the first word of each set; others follow word by word.
TOPOSEAT_INLINE FlowSet<1> users_of_full(const FillColumns<1> &columns, double limit) {
  Whole users = {};
  for (std::size_t c = 0; c < columns.count; c += lanes) {
    const Whole full = load(columns.shares + c) <= limit;
    users |= *reinterpret_cast<const AnyWhole *>(columns.users + c) & full;
  }
  FlowSet<1> result;
  for (std::size_t k = 0; k < lanes; ++k)
    result.words[0] |= static_cast<std::uint64_t>(users[k]);
  return result;
}

template <std::size_t Words>
TOPOSEAT_INLINE FlowSet<Words> users_of_full(const FillColumns<Words> &columns, double limit) {
  FlowSet<Words> result;
  for (std::size_t c = 0; c < columns.count; ++c) {
    const std::uint64_t full = columns.shares[c] <= limit ? ~std::uint64_t{0} : 0;
    for (std::size_t w = 0; w < Words; ++w)
      result.words[w] |= columns.users[c].words[w] & full;
  }
  return result;
}

// The three loops for one kind of processor, and what holds them. A name and an attribute cannot
// stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define TOPOSEAT_FILL_KERNEL(NAME, TARGET)                                                         \
  struct NAME {                                                                                    \
    template <std::size_t Words>                                                                   \
    TARGET static double enter_round(const FillColumns<Words> &columns,                            \
                                     const FlowSet<Words> &growing, const double *left) {          \
      return enter(columns, growing, left);                                                        \
    }                                                                                              \
    template <std::size_t Words>                                                                   \
    TARGET static double next_round(const FillColumns<Words> &columns,                             \
                                    const FlowSet<Words> &growing, double level,                   \
                                    const double *left, double *next) {                            \
      return advance(columns, growing, level, left, next);                                         \
    }                                                                                              \
    template <std::size_t Words>                                                                   \
    TARGET static FlowSet<Words> full(const FillColumns<Words> &columns, double limit) {           \
      return users_of_full(columns, limit);                                                        \
    }                                                                                              \
    template <std::size_t Words> static FillKernel<Words> kernel() {                               \
      return {enter_round<Words>, next_round<Words>, full<Words>};                                 \
    }                                                                                              \
  }

// NOLINTEND(bugprone-macro-parentheses)

TOPOSEAT_FILL_KERNEL(Plain, );
#ifdef TOPOSEAT_WIDER
TOPOSEAT_FILL_KERNEL(Avx2, __attribute__((target("avx2,popcnt"))));
// Counts the bits of four or eight words at once.
TOPOSEAT_FILL_KERNEL(Avx512,
                     __attribute__((target("avx2,popcnt,avx512f,avx512vl,avx512vpopcntdq"))));
#endif

} // namespace

template <std::size_t Words> FillKernel<Words> fill_kernel() {
#ifdef TOPOSEAT_WIDER
  static const bool avx2 =
      __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("popcnt") != 0;
  static const bool avx512 = avx2 && __builtin_cpu_supports("avx512vl") != 0 &&
                             __builtin_cpu_supports("avx512vpopcntdq") != 0;
  if (avx512)
    return Avx512::kernel<Words>();
  if (avx2)
    return Avx2::kernel<Words>();
#endif
  return Plain::kernel<Words>();
}

template FillKernel<1> fill_kernel();
template FillKernel<2> fill_kernel();
template FillKernel<4> fill_kernel();

} // namespace toposeat
