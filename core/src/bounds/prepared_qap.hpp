// A quadratic assignment problem in the form that has the best bounds: symmetric where one side is,
// without constants, in whole units.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// The same problem with smaller numbers: cost(p) = constant + scale * qap_cost(qap, p) for every
/// permutation p.
///
/// If one of the matrices is symmetric, only the mean of both directions of the other counts, and
/// it is used. What every pair has at least is taken out of both matrices. If the rest is made of
/// whole multiples of a unit (distances also of a fraction with a small denominator, as ratios of
/// bandwidths are), the units go into `scale`, and two different costs differ by at least `step`.
/// Costs of two terms are only made symmetric.
struct PreparedQap {
  Qap qap;
  double constant = 0;
  double scale = 1;
  double step = 0; // 0: nothing is known about differences

  explicit PreparedQap(const Qap &original);

  [[nodiscard]] double original(double prepared_cost) const {
    return constant + scale * prepared_cost;
  }
  [[nodiscard]] double prepared(double original_cost) const {
    return (original_cost - constant) / scale;
  }
};

} // namespace toposeat
