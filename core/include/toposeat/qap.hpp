// The pairwise cost of a placement as a quadratic assignment problem.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "toposeat/network.hpp"

namespace toposeat {

/// Dense square matrix, row-major.
struct Matrix {
  std::size_t n = 0;
  std::vector<double> values;

  Matrix() = default;
  explicit Matrix(std::size_t size) : n(size), values(size * size, 0.0) {}

  double &operator()(std::size_t row, std::size_t column) { return values[row * n + column]; }
  double operator()(std::size_t row, std::size_t column) const { return values[row * n + column]; }
  [[nodiscard]] const double *row(std::size_t index) const { return values.data() + index * n; }
};

/// Minimise sum over directed pairs of flow(r, s) * distance(p[r], p[s]) over permutations p.
///
/// Both matrices are n x n, zero on the diagonal, non-negative, and need not be symmetric. Ranks
/// `active`..n-1 are silent: they fill the devices that no rank of the job needs.
/// `pinned[r]` is the device that rank r must have, or `no_pin`.
struct Qap {
  static constexpr std::uint32_t no_pin = 0xffffffffU;

  Matrix flow;
  Matrix distance;
  std::size_t active = 0;
  std::vector<std::uint32_t> pinned;

  [[nodiscard]] std::size_t size() const { return flow.n; }
  [[nodiscard]] bool free_rank(std::size_t rank) const { return pinned[rank] == no_pin; }
};

/// The problem of placing `traffic` on devices with the given pairwise cost; pads with silent
/// ranks. Throws std::invalid_argument if there are more ranks than devices or a cost is negative.
Qap make_qap(const RankTraffic &traffic, const Matrix &cost);

double qap_cost(const Qap &qap, std::span<const std::uint32_t> placement);

/// Change of cost when ranks r and s exchange their devices; O(n).
double swap_delta(const Qap &qap, std::span<const std::uint32_t> placement, std::size_t r,
                  std::size_t s);

/// Smallest difference between two different costs that the data allow: 1 or 2 for integer data
/// (2 when both matrices are symmetric), otherwise 0. Lets a bound be rounded up.
double cost_step(const Qap &qap);

/// Sum of |cost| scale below which two costs count as equal: 1e-9 relative.
inline bool less_by_tolerance(double a, double b) { return a < b - 1e-9 * (b < 0 ? -b : b); }

} // namespace toposeat
