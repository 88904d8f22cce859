// Numbers of ordered pairs.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace toposeat {

/// Dense square matrix, row-major.
struct Matrix {
  std::size_t n = 0;
  std::vector<double> values;

  Matrix() = default;
  explicit Matrix(std::size_t size) : n(size), values(size * size, 0.0) {}

  double &operator()(std::size_t row, std::size_t column) { return values[row * n + column]; }
  [[nodiscard]] double operator()(std::size_t row, std::size_t column) const {
    return values[row * n + column];
  }
  [[nodiscard]] const double *row(std::size_t index) const { return values.data() + index * n; }
};

} // namespace toposeat
