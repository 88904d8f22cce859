// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/qap.hpp"

#include <cmath>
#include <stdexcept>

namespace toposeat {

Qap make_qap(const RankTraffic &traffic, const Matrix &cost) {
  if (traffic.ranks > cost.n) {
    throw std::invalid_argument("more ranks than devices");
  }
  for (const double value : cost.values) {
    if (!(value >= 0) || !std::isfinite(value)) {
      throw std::invalid_argument("expected finite pairwise costs >= 0");
    }
  }
  Qap qap{Matrix(cost.n), cost, traffic.ranks, std::vector(cost.n, Qap::no_pin)};
  for (const Flow &flow : traffic.flows) {
    qap.flow(flow.source, flow.target) += flow.bytes;
  }
  for (std::size_t i = 0; i < cost.n; ++i) {
    qap.flow(i, i) = 0;
    qap.distance(i, i) = 0;
  }
  return qap;
}

double qap_cost(const Qap &qap, std::span<const std::uint32_t> placement) {
  double total = 0;
  for (std::size_t r = 0; r < qap.active; ++r) {
    const double *flow = qap.flow.row(r);
    const double *distance = qap.distance.row(placement[r]);
    for (std::size_t s = 0; s < qap.active; ++s) {
      total += flow[s] * distance[placement[s]];
    }
  }
  return total;
}

double swap_delta(const Qap &qap, std::span<const std::uint32_t> placement, std::size_t r,
                  std::size_t s) {
  const Matrix &f = qap.flow;
  const Matrix &d = qap.distance;
  const std::size_t pr = placement[r];
  const std::size_t ps = placement[s];
  double delta = (f(r, s) - f(s, r)) * (d(ps, pr) - d(pr, ps));
  for (std::size_t k = 0; k < qap.size(); ++k) {
    if (k == r || k == s) {
      continue;
    }
    const std::size_t pk = placement[k];
    delta += (f(k, r) - f(k, s)) * (d(pk, ps) - d(pk, pr)) +
             (f(r, k) - f(s, k)) * (d(ps, pk) - d(pr, pk));
  }
  return delta;
}

double cost_step(const Qap &qap) {
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
