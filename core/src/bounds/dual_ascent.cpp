// SPDX-License-Identifier: MIT OR Apache-2.0
#include "bounds/dual_ascent.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace toposeat {
namespace {

constexpr int gentle_passes = 5;

} // namespace

ReducedQap::ReducedQap(const Qap &qap) : ranks_(qap.size()), devices_(qap.size()) {
  const std::size_t n = qap.size();
  std::iota(ranks_.begin(), ranks_.end(), 0U);
  std::iota(devices_.begin(), devices_.end(), 0U);
  leader_.assign(n * n, 0.0);
  quadratic_.resize(n * n * n * n);
  double largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t k = 0; k < n; ++k) {
        for (std::size_t l = 0; l < n; ++l) {
          quadratic(i, j, k, l) = qap.pair_cost(i, k, j, l);
          largest = std::max(largest, quadratic(i, j, k, l));
        }
      }
    }
  }
  forbidden_ = 1e6 * static_cast<double>(n * n) * largest + 1;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (!qap.may_use(i, j))
        leader_[i * n + j] = forbidden_;
    }
  }
}

void ReducedQap::improve(double enough, int passes, const Deadline &deadline) {
  const std::size_t n = size();
  AssignmentReducer reducer(n);
  for (int pass = 0; pass < passes && bound_ <= enough && n > 0; ++pass) {
    const double before = bound_;
    spread_leaders();
    const double take = passes_done_++ < gentle_passes ? 0.4 : 0.8;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        if (leader_[i * n + j] < forbidden_ / 2)
          reduce_submatrix(reducer, i, j, take, enough - bound_);
      }
      if (n > 8 && deadline.expired())
        break;
    }
    reduce_leaders(reducer);
    strike_out(enough);
    if (deadline.expired())
      break;
    // A pass that closes under a hundredth of what is missing will not get there.
    if (pass > 0 && enough < unlimited && bound_ - before < 0.01 * (enough - bound_))
      break;
  }
}

/// Each leader is shared out over the rows of its submatrix. All of them first: a submatrix that is
/// reduced right away would only take its own leader back, and nothing would reach the others.
void ReducedQap::spread_leaders() {
  const std::size_t n = size();
  if (n < 2)
    return;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double &leader = leader_[i * n + j];
      const double share = leader / static_cast<double>(n - 1);
      if (!(share > 0) || leader >= forbidden_ / 2)
        continue;
      leader = 0;
      double *own = &quadratic_[(i * n + j) * n * n];
      for (std::size_t entry = 0; entry < n * n; ++entry)
        own[entry] += share;
      // Row i and column j are no entries of the submatrix; they are never read.
    }
  }
}

/// The submatrix into `scratch_`: each entry counts with the part `take` of what it and its
/// complement hold together, the rest stays with the complement. Taking all would starve the
/// submatrices that come later. Two pairs that cost more than `room` together are struck out.
void ReducedQap::gather_submatrix(std::size_t i, std::size_t j, double take, double room) {
  const std::size_t n = size();
  double *out = scratch_.data();
  for (std::size_t k = 0; k < n; ++k) {
    if (k == i)
      continue;
    const double *own = &quadratic_[((i * n + j) * n + k) * n];
    const double *leaders = &leader_[k * n];
    double *complement = &quadratic_[(k * n * n + i) * n + j];
    for (std::size_t l = 0; l < n; ++l, complement += n * n) {
      if (l == j)
        continue;
      const double both = own[l] + *complement;
      const bool never = both + leaders[l] > room;
      const double mine = never ? forbidden_ : take * both;
      *complement = never ? forbidden_ : both - mine;
      *out++ = mine;
    }
  }
}

/// Raises the leader to the optimum of its submatrix.
void ReducedQap::reduce_submatrix(AssignmentReducer &reducer, std::size_t i, std::size_t j,
                                  double take, double room) {
  const std::size_t n = size();
  if (n < 2)
    return;
  const std::size_t m = n - 1;
  scratch_.resize(m * m);
  gather_submatrix(i, j, take, room);
  const double least = reducer.reduce(scratch_.data(), m);
  if (least >= forbidden_ / 2) {
    leader_[i * n + j] = forbidden_;
    return;
  }
  leader_[i * n + j] = least;
  const double *in = scratch_.data();
  for (std::size_t k = 0; k < n; ++k) {
    if (k == i)
      continue;
    double *own = &quadratic_[((i * n + j) * n + k) * n];
    for (std::size_t l = 0; l < n; ++l) {
      if (l != j)
        own[l] = *in++;
    }
  }
}

void ReducedQap::reduce_leaders(AssignmentReducer &reducer) {
  const double least = reducer.reduce(leader_.data(), size());
  bound_ = least < forbidden_ / 2 ? bound_ + least : unlimited;
}

/// A leader beyond the room above the bound is one for good.
void ReducedQap::strike_out(double enough) {
  for (double &leader : leader_) {
    if (bound_ + leader > enough)
      leader = forbidden_;
  }
}

ReducedQap ReducedQap::assign(std::size_t row, std::size_t column) const {
  const std::size_t n = size();
  const std::size_t m = n - 1;
  ReducedQap rest;
  rest.passes_done_ = passes_done_;
  rest.forbidden_ = forbidden_;
  rest.bound_ = bound_ + leader_[row * n + column];
  rest.ranks_ = ranks_;
  rest.ranks_.erase(rest.ranks_.begin() + static_cast<std::ptrdiff_t>(row));
  rest.devices_ = devices_;
  rest.devices_.erase(rest.devices_.begin() + static_cast<std::ptrdiff_t>(column));
  rest.leader_.reserve(m * m);
  rest.quadratic_.reserve(m * m * m * m);
  const double *mine = &quadratic_[(row * n + column) * n * n];
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n && i != row; ++j) {
      if (j == column)
        continue;
      const double *other = &quadratic_[(i * n + j) * n * n];
      rest.leader_.push_back(leader_[i * n + j] + mine[i * n + j] + other[row * n + column]);
      for (std::size_t k = 0; k < n; ++k) {
        if (k == row)
          continue;
        const double *line = other + k * n;
        rest.quadratic_.insert(rest.quadratic_.end(), line, line + column);
        rest.quadratic_.insert(rest.quadratic_.end(), line + column + 1, line + n);
      }
    }
  }
  return rest;
}

} // namespace toposeat
