// SPDX-License-Identifier: MIT OR Apache-2.0
#include "search/swap_kernel.hpp"

#include <cstdint>
#include <limits>

#include "base/wide.hpp"

namespace toposeat {
namespace {

template <std::size_t Halves, class T>
TOPOSEAT_INLINE void add_products_of(const KernelRows<T> &rows, T *matrix) {
  for (std::size_t i = 0; i < rows.n; ++i) {
    T factor[Halves];
    bool any = false;
    for (std::size_t h = 0; h < Halves; ++h) {
      factor[h] = rows.u[h][i];
      any = any || factor[h] != 0;
    }
    if (!any)
      continue;
    T *const row = matrix + i * rows.stride;
    for (std::size_t j = 0; j < rows.stride; ++j) {
      T sum = row[j];
      for (std::size_t h = 0; h < Halves; ++h)
        sum += factor[h] * rows.v[h][j];
      row[j] = sum;
    }
  }
}

template <std::size_t Halves, class T>
TOPOSEAT_INLINE void update_deltas_of(const KernelRows<T> &rows, T *delta) {
  for (std::size_t i = 0; i < rows.n; ++i) {
    T u[Halves];
    T v[Halves];
    for (std::size_t h = 0; h < Halves; ++h) {
      u[h] = rows.u[h][i];
      v[h] = rows.v[h][i];
    }
    T *const row = delta + i * rows.stride;
    for (std::size_t j = (i + 1) / kernel_lanes * kernel_lanes; j < rows.stride; ++j) {
      T sum = row[j];
      for (std::size_t h = 0; h < Halves; ++h)
        sum -= (u[h] - rows.u[h][j]) * (v[h] - rows.v[h][j]);
      row[j] = sum;
    }
  }
}

/// GCC and Clang split a vector into what the processor has; elsewhere they see plain loops.
constexpr std::size_t vector_bytes = 32;
template <class T> struct Vectors {
  typedef T Plain __attribute__((vector_size(vector_bytes)));
  typedef T Unaligned __attribute__((vector_size(vector_bytes), aligned(alignof(T)), may_alias));
};

} // namespace

template <class T> TOPOSEAT_WIDE void add_products(const KernelRows<T> &rows, T *matrix) {
  if (rows.halves == 1)
    add_products_of<1>(rows, matrix);
  else if (rows.halves == 2)
    add_products_of<2>(rows, matrix);
  else if (rows.halves == 3)
    add_products_of<3>(rows, matrix);
  else
    add_products_of<4>(rows, matrix);
}

template <class T> TOPOSEAT_WIDE void update_deltas(const KernelRows<T> &rows, T *delta) {
  if (rows.halves == 1)
    update_deltas_of<1>(rows, delta);
  else if (rows.halves == 2)
    update_deltas_of<2>(rows, delta);
  else if (rows.halves == 3)
    update_deltas_of<3>(rows, delta);
  else
    update_deltas_of<4>(rows, delta);
}

template <class T>
TOPOSEAT_WIDE void row_minima(std::size_t n, std::size_t stride, const T *delta, const T *until,
                              T now, T never, T *least_free, T *least_any) {
  using Plain = typename Vectors<T>::Plain;
  using Unaligned = typename Vectors<T>::Unaligned;
  constexpr std::size_t lanes = vector_bytes / sizeof(T);
  const Plain most = Plain{} + std::numeric_limits<T>::max();
  const Plain all_now = Plain{} + now;
  const Plain all_never = Plain{} + never;
  for (std::size_t i = 0; i < n; ++i) {
    Plain free = most;
    Plain any = most;
    for (std::size_t j = (i + 1) / kernel_lanes * kernel_lanes; j < stride; j += lanes) {
      const Plain value = *reinterpret_cast<const Unaligned *>(delta + i * stride + j);
      const Plain end = *reinterpret_cast<const Unaligned *>(until + i * stride + j);
      const Plain as_free = end <= all_now ? value : most;
      const Plain as_any = end < all_never ? value : most;
      free = as_free < free ? as_free : free;
      any = as_any < any ? as_any : any;
    }
    T lowest_free = free[0];
    T lowest_any = any[0];
    for (std::size_t lane = 1; lane < lanes; ++lane) {
      lowest_free = free[lane] < lowest_free ? free[lane] : lowest_free;
      lowest_any = any[lane] < lowest_any ? any[lane] : lowest_any;
    }
    least_free[i] = lowest_free;
    least_any[i] = lowest_any;
  }
}

template void add_products(const KernelRows<std::int32_t> &, std::int32_t *);
template void add_products(const KernelRows<double> &, double *);
template void update_deltas(const KernelRows<std::int32_t> &, std::int32_t *);
template void update_deltas(const KernelRows<double> &, double *);
template void row_minima(std::size_t, std::size_t, const std::int32_t *, const std::int32_t *,
                         std::int32_t, std::int32_t, std::int32_t *, std::int32_t *);
template void row_minima(std::size_t, std::size_t, const double *, const double *, double, double,
                         double *, double *);

} // namespace toposeat
