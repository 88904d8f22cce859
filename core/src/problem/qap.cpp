// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/problem/qap.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace toposeat {

constexpr double largest_cost_sum = 1e200;

bool is_symmetric(const Matrix &matrix) {
  for (std::size_t i = 0; i < matrix.n; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (matrix(i, j) != matrix(j, i))
        return false;
    }
  }
  return true;
}

bool exchange_keeps(const Matrix &matrix, std::size_t i, std::size_t j) {
  if (matrix(i, j) != matrix(j, i))
    return false;
  for (std::size_t k = 0; k < matrix.n; ++k) {
    if (k != i && k != j && (matrix(i, k) != matrix(j, k) || matrix(k, i) != matrix(k, j)))
      return false;
  }
  return true;
}

namespace {

void check_costs(const Matrix &cost) {
  for (const double value : cost.values) {
    if (!(value >= 0) || !std::isfinite(value)) {
      throw std::invalid_argument("expected finite pairwise costs >= 0");
    }
  }
}

double largest(const Matrix &matrix) {
  double result = 0;
  for (const double value : matrix.values)
    result = std::max(result, value);
  return result;
}

double sum(const Matrix &matrix) {
  return std::accumulate(matrix.values.begin(), matrix.values.end(), 0.0);
}

void clear_diagonal(Matrix &matrix) {
  for (std::size_t i = 0; i < matrix.n; ++i)
    matrix(i, i) = 0;
}

double term_cost(const Qap &qap, const Matrix &flows, const Matrix &distances,
                 std::span<const std::uint32_t> placement) {
  double total = 0;
  for (std::size_t r = 0; r < qap.active; ++r) {
    const double *flow = flows.row(r);
    const double *distance = distances.row(placement[r]);
    for (std::size_t s = 0; s < qap.active; ++s) {
      total += flow[s] * distance[placement[s]];
    }
  }
  return total;
}

double term_delta(const Matrix &f, const Matrix &d, std::span<const std::uint32_t> placement,
                  std::size_t r, std::size_t s) {
  const std::size_t pr = placement[r];
  const std::size_t ps = placement[s];
  double delta = (f(r, s) - f(s, r)) * (d(ps, pr) - d(pr, ps));
  for (std::size_t k = 0; k < f.n; ++k) {
    if (k == r || k == s) {
      continue;
    }
    const std::size_t pk = placement[k];
    delta += (f(k, r) - f(k, s)) * (d(pk, ps) - d(pk, pr)) +
             (f(r, k) - f(s, k)) * (d(ps, pk) - d(pr, pk));
  }
  return delta;
}

} // namespace

Qap make_qap(const RankTraffic &traffic, const Matrix &cost, const Matrix &message_cost) {
  if (traffic.ranks > cost.n) {
    throw std::invalid_argument("more ranks than devices");
  }
  check_costs(cost);
  check_costs(message_cost);
  Qap qap{Matrix(cost.n), cost, traffic.ranks, std::vector(cost.n, Qap::no_pin), {}, {}, {}};
  for (const Flow &flow : traffic.flows) {
    qap.flow(flow.source, flow.target) += flow.bytes;
  }
  clear_diagonal(qap.flow);
  clear_diagonal(qap.distance);
  if (message_cost.n != 0) {
    if (message_cost.n != cost.n)
      throw std::invalid_argument("expected a message cost for every pair of devices");
    qap.flow2 = Matrix(cost.n);
    qap.distance2 = message_cost;
    for (const Flow &flow : traffic.flows)
      qap.flow2(flow.source, flow.target) += flow.messages;
    clear_diagonal(qap.flow2);
    clear_diagonal(qap.distance2);
  }
  // Bounds and reduced costs are sums of as many terms again: keep well away from infinity.
  const double most =
      sum(qap.flow) * largest(qap.distance) + sum(qap.flow2) * largest(qap.distance2);
  if (!(most < largest_cost_sum))
    throw std::invalid_argument("bytes x cost is beyond the range of numbers");
  return qap;
}

double qap_cost(const Qap &qap, std::span<const std::uint32_t> placement) {
  const double first = term_cost(qap, qap.flow, qap.distance, placement);
  return qap.has_second_term() ? first + term_cost(qap, qap.flow2, qap.distance2, placement)
                               : first;
}

double swap_delta(const Qap &qap, std::span<const std::uint32_t> placement, std::size_t r,
                  std::size_t s) {
  const double first = term_delta(qap.flow, qap.distance, placement, r, s);
  return qap.has_second_term() ? first + term_delta(qap.flow2, qap.distance2, placement, r, s)
                               : first;
}

double cost_step(const Qap &qap) {
  if (qap.has_second_term())
    return 0;
  bool symmetric = true;
  double total = 0;
  for (const Matrix *matrix : {&qap.flow, &qap.distance}) {
    for (std::size_t i = 0; i < matrix->n; ++i) {
      for (std::size_t j = 0; j < matrix->n; ++j) {
        const double value = (*matrix)(i, j);
        if (value != std::floor(value)) {
          return 0;
        }
        symmetric = symmetric && value == (*matrix)(j, i);
      }
    }
  }
  for (const double value : qap.flow.values) {
    total += value;
  }
  double widest = 0;
  for (const double value : qap.distance.values) {
    widest = value > widest ? value : widest;
  }
  // Rounding a bound up is only sound while doubles hold the integers with room to spare.
  if (total * widest > 1e12) {
    return 0;
  }
  return symmetric ? 2 : 1;
}

} // namespace toposeat
