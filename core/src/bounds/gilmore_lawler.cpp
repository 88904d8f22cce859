// SPDX-License-Identifier: MIT OR Apache-2.0
#include "bounds/gilmore_lawler.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "bounds/linear_assignment.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {
namespace {

constexpr std::size_t largest_assignment = 256; // devices

/// Rows (or columns) of a matrix without the diagonal, sorted.
template <class Order> Matrix sorted_lines(const Matrix &matrix, bool columns, Order order) {
  Matrix lines(matrix.n);
  for (std::size_t i = 0; i < matrix.n; ++i) {
    double *line = lines.values.data() + i * matrix.n;
    std::size_t length = 0;
    for (std::size_t j = 0; j < matrix.n; ++j) {
      if (j != i)
        line[length++] = columns ? matrix(j, i) : matrix(i, j);
    }
    std::sort(line, line + length, order); // the last entry stays 0
  }
  return lines;
}

/// Adds what each rank pays at least on each device.
void add_products(const Matrix &flow, const Matrix &distance, bool columns, Matrix &least) {
  const Matrix flows = sorted_lines(flow, columns, std::greater<>());
  const Matrix distances = sorted_lines(distance, columns, std::less<>());
  for (std::size_t i = 0; i < flow.n; ++i) {
    for (std::size_t j = 0; j < flow.n; ++j)
      least(i, j) += std::inner_product(flows.row(i), flows.row(i) + flow.n, distances.row(j), 0.0);
  }
}

double by_assignment(const Qap &qap, bool columns) {
  Matrix least(qap.size());
  add_products(qap.flow, qap.distance, columns, least);
  if (qap.has_second_term())
    add_products(qap.flow2, qap.distance2, columns, least);
  for (std::size_t i = 0; i < qap.size(); ++i) {
    for (std::size_t j = 0; j < qap.size(); ++j) {
      if (!qap.may_use(i, j))
        least(i, j) = unlimited;
    }
  }
  return reduce_assignment(least.values, qap.size());
}

double by_envelope(const Matrix &flow, const Matrix &distance, bool columns) {
  const std::size_t n = flow.n;
  const Matrix flows = sorted_lines(flow, columns, std::greater<>());
  const Matrix distances = sorted_lines(distance, columns, std::less<>());
  std::vector<double> envelope(distances.values.begin(),
                               distances.values.begin() + static_cast<std::ptrdiff_t>(n));
  for (std::size_t j = 1; j < n; ++j) {
    for (std::size_t k = 0; k < n; ++k)
      envelope[k] = std::min(envelope[k], distances(j, k));
  }
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i)
    sum += std::inner_product(envelope.begin(), envelope.end(), flows.row(i), 0.0);
  return sum;
}

double bound_of(const Qap &qap, bool columns) {
  if (qap.size() <= largest_assignment)
    return by_assignment(qap, columns);
  const double first = by_envelope(qap.flow, qap.distance, columns);
  return qap.has_second_term() ? first + by_envelope(qap.flow2, qap.distance2, columns) : first;
}

} // namespace

double gilmore_lawler_bound(const Qap &qap) {
  return qap.size() == 0 ? 0 : std::max(bound_of(qap, false), bound_of(qap, true));
}

} // namespace toposeat
