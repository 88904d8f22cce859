// The linear assignment problem and its dual solution: minimise sum of c(i, p[i]) over permutations
// p.
//
// Row and column minima, then shortest augmenting paths: Jonker, Volgenant, A shortest augmenting
// path algorithm for dense and sparse linear assignment problems, Computing 38, 1987. With dual u,
// v it leaves c(i, j) - u[i] - v[j] >= 0, and the optimum is the sum of u and v.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace toposeat {

/// Reduces square matrices, one after the other, without asking for memory each time.
///
/// Row and column minima, a greedy matching on what they make zero, then shortest augmenting paths
/// for the rows left over (Jonker and Volgenant, Computing 38, 1987). O(n^3); about a microsecond
/// for n = 15.
class AssignmentReducer {
public:
  explicit AssignmentReducer(std::size_t largest);

  /// Solves the linear assignment problem on the n x n `matrix` (row-major), subtracts an optimal
  /// dual solution from it (all entries stay >= 0) and returns the optimum. An infinite optimum
  /// (no assignment avoids infinite entries) leaves the matrix as it was.
  double reduce(double *matrix, std::size_t n);

private:
  bool start_duals(const double *matrix, std::size_t n);
  void match_zeros(const double *matrix, std::size_t n);
  std::uint64_t zeros_of(const double *line, double row_dual, std::size_t n) const;
  bool take_zero(std::size_t row, std::uint64_t &open);
  bool augment(const double *matrix, std::size_t n, std::size_t row);
  void follow_back(std::size_t column, std::size_t first, std::size_t n);

  std::vector<double> row_dual_;
  std::vector<double> column_dual_;
  std::vector<double> open_dual_;   // of columns not settled, -inf for the others
  std::vector<double> distance_;    // of each open column from the row that looks for a place
  std::vector<double> from_;        // row through which a column is reached
  std::vector<std::size_t> row_of_; // matched to each column, or n
  std::vector<std::size_t> free_;   // rows without a column
  std::vector<std::uint64_t> zeros_;
  std::vector<std::pair<std::size_t, double>> settled_; // columns and their distances, in order
};

/// `AssignmentReducer::reduce` for one matrix.
double reduce_assignment(std::vector<double> &matrix, std::size_t n);

} // namespace toposeat
