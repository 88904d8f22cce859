// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/dual_ascent.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace toposeat {
namespace {

constexpr int gentle_passes = 5;

/// Shortest augmenting paths with potentials, one row at a time.
class AssignmentSolver {
public:
  AssignmentSolver(const std::vector<double> &matrix, std::size_t n)
      : matrix_(matrix), n_(n), row_dual_(n + 1, 0.0), column_dual_(n + 1, 0.0), row_of_(n + 1, n),
        way_(n + 1, n) {}

  bool run() {
    for (std::size_t row = 0; row < n_; ++row) {
      if (!augment(row))
        return false;
    }
    return true;
  }

  [[nodiscard]] double row_dual(std::size_t row) const { return row_dual_[row]; }
  [[nodiscard]] double column_dual(std::size_t column) const { return column_dual_[column]; }

private:
  /// Column n is a virtual one that holds the row to place.
  bool augment(std::size_t row) {
    row_of_[n_] = row;
    slack_.assign(n_ + 1, unlimited);
    done_.assign(n_ + 1, 0);
    std::size_t column = n_;
    do {
      done_[column] = 1;
      const std::size_t from = row_of_[column];
      double delta = unlimited;
      std::size_t next = n_;
      for (std::size_t j = 0; j < n_; ++j) {
        if (done_[j] != 0)
          continue;
        const double reduced = matrix_[from * n_ + j] - row_dual_[from] - column_dual_[j];
        if (reduced < slack_[j]) {
          slack_[j] = reduced;
          way_[j] = column;
        }
        if (slack_[j] < delta) {
          delta = slack_[j];
          next = j;
        }
      }
      if (!(delta < unlimited))
        return false;
      shift(delta);
      column = next;
    } while (row_of_[column] != n_);
    while (column != n_) {
      row_of_[column] = row_of_[way_[column]];
      column = way_[column];
    }
    return true;
  }

  void shift(double delta) {
    for (std::size_t j = 0; j <= n_; ++j) {
      if (done_[j] != 0) {
        row_dual_[row_of_[j]] += delta;
        column_dual_[j] -= delta;
      } else {
        slack_[j] -= delta;
      }
    }
  }

  const std::vector<double> &matrix_;
  std::size_t n_;
  std::vector<double> row_dual_;
  std::vector<double> column_dual_;
  std::vector<std::size_t> row_of_;
  std::vector<std::size_t> way_;
  std::vector<double> slack_;
  std::vector<char> done_;
};

} // namespace

double reduce_assignment(std::vector<double> &matrix, std::size_t n) {
  AssignmentSolver solver(matrix, n);
  if (!solver.run())
    return unlimited;
  double total = 0;
  for (std::size_t i = 0; i < n; ++i) {
    total += solver.row_dual(i) + solver.column_dual(i);
    for (std::size_t j = 0; j < n; ++j) {
      double &entry = matrix[i * n + j];
      entry = std::max(0.0, entry - solver.row_dual(i) - solver.column_dual(j));
    }
  }
  return total;
}

ReducedQap::ReducedQap(const Qap &qap) : ranks_(qap.size()), devices_(qap.size()) {
  const std::size_t n = qap.size();
  std::iota(ranks_.begin(), ranks_.end(), 0U);
  std::iota(devices_.begin(), devices_.end(), 0U);
  leader_.assign(n * n, 0.0);
  quadratic_.resize(n * n * n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t k = 0; k < n; ++k) {
        for (std::size_t l = 0; l < n; ++l) {
          quadratic(i, j, k, l) = qap.flow(i, k) * qap.distance(j, l);
        }
      }
    }
  }
}

void ReducedQap::improve(double enough, int passes, const Deadline &deadline) {
  const std::size_t n = size();
  for (int pass = 0; pass < passes && bound_ <= enough && n > 0; ++pass) {
    const double before = bound_;
    spread_leaders();
    const double take = passes_done_++ < gentle_passes ? 0.4 : 0.8;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j)
        reduce_submatrix(i, j, take);
      if (n > 8 && deadline.expired())
        break;
    }
    reduce_leaders();
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
      if (!(share > 0))
        continue;
      leader = 0;
      double *own = &quadratic_[(i * n + j) * n * n];
      for (std::size_t entry = 0; entry < n * n; ++entry)
        own[entry] += share;
      // Row i and column j are no entries of the submatrix; they are never read.
    }
  }
}

/// Raises the leader to the optimum of its submatrix, in which each entry counts with the part
/// `take` of what it and its complement hold together. Taking all would starve the submatrices
/// that come later.
void ReducedQap::reduce_submatrix(std::size_t i, std::size_t j, double take) {
  const std::size_t n = size();
  if (n < 2)
    return;
  const std::size_t m = n - 1;
  scratch_.resize(m * m);
  double *out = scratch_.data();
  for (std::size_t k = 0; k < n; ++k) {
    if (k == i)
      continue;
    const double *own = &quadratic_[((i * n + j) * n + k) * n];
    for (std::size_t l = 0; l < n; ++l) {
      if (l == j)
        continue;
      double &complement = quadratic(k, l, i, j);
      const double both = own[l] + complement;
      const double mine = take * both;
      *out++ = mine;
      complement = both - mine;
    }
  }
  leader_[i * n + j] = reduce_assignment(scratch_, m);
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

void ReducedQap::reduce_leaders() { bound_ += reduce_assignment(leader_, size()); }

ReducedQap ReducedQap::assign(std::size_t row, std::size_t column) const {
  const std::size_t n = size();
  const std::size_t m = n - 1;
  ReducedQap rest;
  rest.passes_done_ = passes_done_;
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

double gilmore_lawler_bound(const Qap &qap) {
  const std::size_t n = qap.size();
  std::vector<double> best(n * n);
  std::vector<double> flows;
  std::vector<double> distances;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      flows.clear();
      distances.clear();
      for (std::size_t k = 0; k < n; ++k) {
        if (k != i)
          flows.push_back(qap.flow(i, k));
        if (k != j)
          distances.push_back(qap.distance(j, k));
      }
      // The smallest scalar product of two vectors pairs large with small.
      std::sort(flows.begin(), flows.end());
      std::sort(distances.begin(), distances.end(), std::greater<>());
      const bool allowed = qap.free_rank(i) || qap.pinned[i] == j;
      best[i * n + j] = allowed
                            ? std::inner_product(flows.begin(), flows.end(), distances.begin(), 0.0)
                            : unlimited;
    }
  }
  return reduce_assignment(best, n);
}

} // namespace toposeat
