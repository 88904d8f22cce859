// The two inner loops of swap searches, in vectors.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>

namespace toposeat {

constexpr std::size_t most_halves = 4;
constexpr std::size_t kernel_lanes = 16; // rows are padded to a multiple of this

/// Rows of `stride` values, `n` of them. u and v have one vector per half term.
template <class T> struct KernelRows {
  std::size_t n;
  std::size_t stride;
  std::size_t halves;
  const T *u[most_halves];
  const T *v[most_halves];
};

// T is std::int32_t or double in what follows.

/// matrix(i, j) += sum of u[i] * v[j]. Rows where all u[i] are 0 are not touched.
template <class T> void add_products(const KernelRows<T> &rows, T *matrix);

/// For j > i: delta(i, j) -= sum of (u[i] - u[j]) * (v[i] - v[j]). Entries j <= i of a row may be
/// overwritten with anything.
template <class T> void update_deltas(const KernelRows<T> &rows, T *delta);

/// Least delta of each row among the entries with until <= now, and among those with
/// until < `never`.
template <class T>
void row_minima(std::size_t n, std::size_t stride, const T *delta, const T *until, T now, T never,
                T *least_free, T *least_any);

} // namespace toposeat
