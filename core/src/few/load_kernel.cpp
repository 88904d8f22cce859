// SPDX-License-Identifier: MIT OR Apache-2.0
#include "few/load_kernel.hpp"

#include "base/wide.hpp"

namespace toposeat {
namespace {

constexpr std::size_t half = small_width / 2;
static_assert(small_width == 8);

/// GCC and Clang split a vector into what the processor has.
template <std::size_t Bytes> struct Vectors {
  typedef double Plain __attribute__((vector_size(Bytes)));
  typedef double Unaligned __attribute__((vector_size(Bytes), aligned(alignof(double)), may_alias));
  static constexpr std::size_t lanes = Bytes / sizeof(double);
  static constexpr std::size_t parts = small_width / lanes;
};

template <std::size_t Bytes>
TOPOSEAT_INLINE typename Vectors<Bytes>::Plain load(const DeviceLine &line, std::size_t part) {
  const double *first = line.data() + part * Vectors<Bytes>::lanes;
  return *reinterpret_cast<const typename Vectors<Bytes>::Unaligned *>(first);
}

template <std::size_t Bytes>
TOPOSEAT_INLINE void store(DeviceLine &line, std::size_t part,
                           typename Vectors<Bytes>::Plain value) {
  double *first = line.data() + part * Vectors<Bytes>::lanes;
  *reinterpret_cast<typename Vectors<Bytes>::Unaligned *>(first) = value;
}

template <class Vector> TOPOSEAT_INLINE Vector larger(Vector a, Vector b) { return a > b ? a : b; }

/// The largest term that is not shared.
template <std::size_t Bytes>
TOPOSEAT_INLINE typename Vectors<Bytes>::Plain lone_term(const LoadRow &row, const LoadStep &step,
                                                         std::size_t part) {
  using Plain = typename Vectors<Bytes>::Plain;
  const LonePaces &paces = step.terms->lone(step.device);
  const Plain one = larger<Plain>(row.received * load<Bytes>(paces.leaving, part),
                                  row.sent * load<Bytes>(paces.entering, part));
  const Plain both = (row.received + row.sent) * load<Bytes>(paces.both, part);
  const Plain reached = Plain{} + step.expected->lone[step.device];
  return larger<Plain>(larger<Plain>(one, both),
                       larger<Plain>(reached, load<Bytes>(row.expected->lone, part)));
}

/// Rows is a constant so that all maxima stay in registers.
template <std::size_t Bytes, std::size_t Rows>
TOPOSEAT_INLINE void settle(const LoadRow *rows, const LoadStep &step) {
  using Plain = typename Vectors<Bytes>::Plain;
  constexpr std::size_t lanes = Vectors<Bytes>::lanes;
  constexpr std::size_t parts = Vectors<Bytes>::parts;
  const DeviceLine *leaving = step.terms->shared().leaving(step.device);
  const DeviceLine *entering = step.terms->shared().entering(step.device);
  const std::size_t terms = step.terms->shared().terms();
  Plain most[Rows][parts];
  Plain filled[parts];
  for (std::size_t h = 0; h < parts; ++h) {
    filled[h] = load<Bytes>(*step.filled, h);
    for (std::size_t r = 0; r < Rows; ++r) {
      most[r][h] = lone_term<Bytes>(rows[r], step, h);
      store<Bytes>(rows[r].expects->lone, h, most[r][h]);
    }
  }
  for (std::size_t t = 0; t < terms; ++t) {
    Plain now[Rows][parts];
    Plain least[parts];
    for (std::size_t h = 0; h < parts; ++h) {
      const Plain out = load<Bytes>(leaving[t], h);
      const Plain in = load<Bytes>(entering[t], h);
      for (std::size_t r = 0; r < Rows; ++r) {
        now[r][h] =
            load<Bytes>(rows[r].before[t], h) + (rows[r].received * out + rows[r].sent * in);
        store<Bytes>(rows[r].now[t], h, now[r][h]);
        if (r == 0)
          least[h] = now[r][h];
        else
          least[h] = least[h] < now[r][h] ? least[h] : now[r][h];
      }
      least[h] *= filled[h];
    }
    double sum[half];
    for (std::size_t k = 0; k < half; ++k)
      sum[k] = least[k / lanes][k % lanes] + least[(k + half) / lanes][(k + half) % lanes];
    const double line = step.before[t] + step.placed[t][step.device];
    step.now[t] = line;
    const double all = line + ((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (std::size_t h = 0; h < parts; ++h) {
      const Plain others = all - least[h];
      for (std::size_t r = 0; r < Rows; ++r)
        most[r][h] = larger<Plain>(most[r][h], others + now[r][h]);
    }
  }
  for (std::size_t r = 0; r < Rows; ++r) {
    for (std::size_t h = 0; h < parts; ++h)
      store<Bytes>(rows[r].expects->most, h, most[r][h]);
  }
}

template <std::size_t Bytes>
TOPOSEAT_INLINE void settle_any(std::span<const LoadRow> rows, const LoadStep &step) {
  switch (rows.size()) {
  case 1:
    return settle<Bytes, 1>(rows.data(), step);
  case 2:
    return settle<Bytes, 2>(rows.data(), step);
  case 3:
    return settle<Bytes, 3>(rows.data(), step);
  case 4:
    return settle<Bytes, 4>(rows.data(), step);
  case 5:
    return settle<Bytes, 5>(rows.data(), step);
  case 6:
    return settle<Bytes, 6>(rows.data(), step);
  case 7:
    return settle<Bytes, 7>(rows.data(), step);
  default:
    return;
  }
}

void settle_plain(std::span<const LoadRow> rows, const LoadStep &step) {
  settle_any<16>(rows, step);
}

#ifdef TOPOSEAT_WIDER
__attribute__((target("avx2"))) void settle_avx2(std::span<const LoadRow> rows,
                                                 const LoadStep &step) {
  settle_any<32>(rows, step);
}

__attribute__((target("avx512f"))) void settle_avx512(std::span<const LoadRow> rows,
                                                      const LoadStep &step) {
  settle_any<64>(rows, step);
}
#endif

SettleRows chosen() {
#ifdef TOPOSEAT_WIDER
  if (__builtin_cpu_supports("avx512f") != 0)
    return settle_avx512;
  if (__builtin_cpu_supports("avx2") != 0)
    return settle_avx2;
#endif
  return settle_plain;
}

} // namespace

SettleRows settle_rows() {
  static const SettleRows best = chosen();
  return best;
}

} // namespace toposeat
