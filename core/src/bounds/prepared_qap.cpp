// SPDX-License-Identifier: MIT OR Apache-2.0
#include "bounds/prepared_qap.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace toposeat {
namespace {

constexpr int largest_denominator = 240;
constexpr double integral_tolerance = 1e-12; // relative; ratios of bandwidths are rounded
constexpr double largest_exact = 1e11;       // costs in units; leaves doubles room to round

void make_symmetric(Matrix &matrix) {
  for (std::size_t i = 0; i < matrix.n; ++i) {
    for (std::size_t j = 0; j < i; ++j)
      matrix(i, j) = matrix(j, i) = (matrix(i, j) + matrix(j, i)) / 2;
  }
}

/// If one of the two matrices is symmetric, the mean of both directions of the other is enough.
bool mirror(Matrix &flow, Matrix &distance) {
  if (!is_symmetric(flow) && !is_symmetric(distance))
    return false;
  make_symmetric(flow);
  make_symmetric(distance);
  return true;
}

double sum(const Matrix &matrix) {
  double total = 0;
  for (const double value : matrix.values)
    total += value;
  return total;
}

/// Subtracts the least entry off the diagonal from all of these, and returns it.
double take_least(Matrix &matrix) {
  double least = matrix.n > 1 ? std::numeric_limits<double>::infinity() : 0;
  for (std::size_t i = 0; i < matrix.n; ++i) {
    for (std::size_t j = 0; j < matrix.n; ++j) {
      if (i != j)
        least = std::min(least, matrix(i, j));
    }
  }
  for (std::size_t i = 0; i < matrix.n; ++i) {
    for (std::size_t j = 0; j < matrix.n; ++j) {
      if (i != j)
        matrix(i, j) -= least;
    }
  }
  return least;
}

/// Greatest number of which all entries times `factor` are whole multiples; nothing if they are
/// not whole. 1 if all are zero.
std::optional<double> common_unit(const Matrix &matrix, double factor) {
  double unit = 0;
  for (const double value : matrix.values) {
    double rest = std::round(value * factor);
    if (std::abs(value * factor - rest) > integral_tolerance * std::max(1.0, rest) || rest > 1e15)
      return std::nullopt;
    while (rest > 0) { // Euclid
      unit = std::fmod(unit, rest);
      std::swap(unit, rest);
    }
  }
  return unit > 0 ? unit : 1.0;
}

/// Unit of the entries: a whole number over a small denominator.
std::optional<double> rational_unit(const Matrix &matrix) {
  for (int denominator = 1; denominator <= largest_denominator; ++denominator) {
    if (const auto unit = common_unit(matrix, denominator))
      return *unit / denominator;
  }
  return std::nullopt;
}

void divide(Matrix &matrix, double unit) {
  for (double &value : matrix.values)
    value = std::round(value / unit);
}

} // namespace

PreparedQap::PreparedQap(const Qap &original) : qap(original) {
  const bool mirrored = mirror(qap.flow, qap.distance);
  if (qap.has_second_term()) {
    mirror(qap.flow2, qap.distance2);
    return;
  }
  const auto n = static_cast<double>(qap.size());
  const double least_distance = take_least(qap.distance);
  const double least_flow = take_least(qap.flow);
  constant = least_distance * sum(qap.flow) + least_flow * sum(qap.distance) +
             n * (n - 1) * least_flow * least_distance;
  // Means of two whole numbers may be halves.
  const auto flow_unit = common_unit(qap.flow, mirrored ? 2 : 1);
  const auto distance_unit = rational_unit(qap.distance);
  if (!flow_unit || !distance_unit)
    return;
  const double unit = mirrored ? *flow_unit / 2 : *flow_unit;
  const double widest = *std::max_element(qap.distance.values.begin(), qap.distance.values.end());
  if (sum(qap.flow) / unit * (widest / *distance_unit) > largest_exact)
    return;
  divide(qap.flow, unit);
  divide(qap.distance, *distance_unit);
  scale = unit * *distance_unit;
  step = mirrored ? 2 : 1; // every pair counts twice
}

} // namespace toposeat
