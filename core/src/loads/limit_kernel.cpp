// SPDX-License-Identifier: MIT OR Apache-2.0
#include "loads/limit_kernel.hpp"

#include <bit>
#include <limits>

#include "base/lanes.hpp"
#include "base/wide.hpp"

namespace toposeat {
namespace {

/// Vectors of 32-bit whole numbers, as values and as what memory of them is read as.
template <std::size_t Bytes> struct Wholes {
  typedef std::int32_t Line __attribute__((vector_size(Bytes)));
  typedef std::int32_t LineInMemory __attribute__((vector_size(Bytes), may_alias));
  static constexpr std::size_t count = Bytes / sizeof(std::int32_t);

  static TOPOSEAT_INLINE Line load(const std::int32_t *first) {
    return *reinterpret_cast<const LineInMemory *>(first);
  }
  static TOPOSEAT_INLINE void store(std::int32_t *first, const Line &line) {
    *reinterpret_cast<LineInMemory *>(first) = line;
  }
  static TOPOSEAT_INLINE void lower(std::int32_t *least, const Line &line) {
    const Line known = load(least);
    store(least, line < known ? line : known);
  }
  static TOPOSEAT_INLINE bool any(const Line &mask) {
    using Words = typename Lanes<Bytes>::Words;
    return Lanes<Bytes>::any_of(reinterpret_cast<Words>(mask))[0] != 0;
  }
};

constexpr std::uint32_t lowest(std::uint32_t bits) { return bits & (~bits + 1); }

template <std::size_t Bytes>
TOPOSEAT_INLINE void fill_with_most(std::int32_t *least, std::size_t stride) {
  using W = Wholes<Bytes>;
  for (std::size_t t = 0; t < stride; t += W::count)
    W::store(least + t, typename W::Line{} + std::numeric_limits<std::int32_t>::max());
}

template <std::size_t Bytes>
TOPOSEAT_INLINE std::uint32_t take_step(const LimitStep &step, std::uint32_t devices,
                                        std::int32_t *next, std::int32_t *least) {
  using W = Wholes<Bytes>;
  fill_with_most<Bytes>(least, step.stride);
  std::uint32_t fits = devices;
  for (; devices != 0; devices &= devices - 1) {
    const std::size_t line = step.stride * static_cast<std::size_t>(std::countr_zero(devices));
    typename W::Line over = {};
    for (std::size_t t = 0; t < step.stride; t += W::count) {
      const typename W::Line now = W::load(step.here + line + t) +
                                   step.received * W::load(step.leaving + line + t) +
                                   step.sent * W::load(step.entering + line + t);
      W::store(next + line + t, now);
      over |= now > W::load(step.room + t);
    }
    if (W::any(over)) {
      fits &= ~lowest(devices);
      continue;
    }
    for (std::size_t t = 0; t < step.stride; t += W::count)
      W::lower(least + t, W::load(next + line + t));
  }
  return fits;
}

template <std::size_t Bytes>
TOPOSEAT_INLINE std::uint32_t look_at(const std::int32_t *lines, std::uint32_t devices,
                                      const std::int32_t *room, std::size_t stride,
                                      std::int32_t *least) {
  using W = Wholes<Bytes>;
  fill_with_most<Bytes>(least, stride);
  std::uint32_t fits = devices;
  for (; devices != 0; devices &= devices - 1) {
    const std::int32_t *line = lines + stride * static_cast<std::size_t>(std::countr_zero(devices));
    typename W::Line over = {};
    for (std::size_t t = 0; t < stride; t += W::count)
      over |= W::load(line + t) > W::load(room + t);
    if (W::any(over)) {
      fits &= ~lowest(devices);
      continue;
    }
    for (std::size_t t = 0; t < stride; t += W::count)
      W::lower(least + t, W::load(line + t));
  }
  return fits;
}

template <std::size_t Bytes>
TOPOSEAT_INLINE bool take_line(std::int32_t *room, const std::int32_t *line, std::int32_t sign,
                               std::size_t stride) {
  using W = Wholes<Bytes>;
  typename W::Line over = {};
  for (std::size_t t = 0; t < stride; t += W::count) {
    const typename W::Line left = W::load(room + t) - sign * W::load(line + t);
    W::store(room + t, left);
    over |= left < typename W::Line{};
  }
  return !W::any(over);
}

// An attribute cannot stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define TOPOSEAT_LIMIT_KERNELS(NAME, BYTES, TARGET)                                                \
  struct NAME {                                                                                    \
    TARGET static std::uint32_t step(const LimitStep &step, std::uint32_t devices,                 \
                                     std::int32_t *next, std::int32_t *least) {                    \
      return take_step<BYTES>(step, devices, next, least);                                         \
    }                                                                                              \
    TARGET static std::uint32_t look(const std::int32_t *lines, std::uint32_t devices,             \
                                     const std::int32_t *room, std::size_t stride,                 \
                                     std::int32_t *least) {                                        \
      return look_at<BYTES>(lines, devices, room, stride, least);                                  \
    }                                                                                              \
    TARGET static bool take(std::int32_t *room, const std::int32_t *line, std::int32_t sign,       \
                            std::size_t stride) {                                                  \
      return take_line<BYTES>(room, line, sign, stride);                                           \
    }                                                                                              \
    static constexpr LimitKernels kernels{step, look, take};                                       \
  }
// NOLINTEND(bugprone-macro-parentheses)

TOPOSEAT_LIMIT_KERNELS(Plain, 16, );
#ifdef TOPOSEAT_WIDER
TOPOSEAT_LIMIT_KERNELS(Avx2, 32, __attribute__((target("avx2"))));
TOPOSEAT_LIMIT_KERNELS(Avx512, 64, __attribute__((target("avx2,avx512f,avx512vl"))));
#endif

} // namespace

LimitKernels plain_limit_kernels() { return Plain::kernels; }

LimitKernels limit_kernels() {
#ifdef TOPOSEAT_WIDER
  if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0)
    return Avx512::kernels;
  if (__builtin_cpu_supports("avx2") != 0)
    return Avx2::kernels;
#endif
  return Plain::kernels;
}

} // namespace toposeat
