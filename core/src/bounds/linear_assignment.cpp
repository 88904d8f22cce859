// SPDX-License-Identifier: MIT OR Apache-2.0
#include "bounds/linear_assignment.hpp"

#include <algorithm>
#include <bit>

#include "base/wide.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {
namespace {

TOPOSEAT_WIDE double least_of(const double *line, std::size_t n) {
  double least[4] = {unlimited, unlimited, unlimited, unlimited};
  std::size_t j = 0;
  for (; j + 4 <= n; j += 4) {
    for (std::size_t k = 0; k < 4; ++k)
      least[k] = line[j + k] < least[k] ? line[j + k] : least[k];
  }
  for (; j < n; ++j)
    least[0] = line[j] < least[0] ? line[j] : least[0];
  return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
}

TOPOSEAT_WIDE void lower_to(double *least, const double *line, double base, std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) {
    const double reduced = line[j] - base;
    least[j] = reduced < least[j] ? reduced : least[j];
  }
}

TOPOSEAT_WIDE void subtract_duals(double *line, const double *column_dual, double row_dual,
                                  std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) {
    const double reduced = line[j] - row_dual - column_dual[j];
    line[j] = reduced > 0 ? reduced : 0;
  }
}

/// Shortens distances through one row; `from` holds row numbers as doubles, as wide as the rest.
TOPOSEAT_WIDE void relax(double *distance, double *from, const double *line,
                         const double *column_dual, double base, double row, std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) {
    const double through = base + line[j] - column_dual[j];
    const bool shorter = through < distance[j];
    distance[j] = shorter ? through : distance[j];
    from[j] = shorter ? row : from[j];
  }
}

} // namespace

AssignmentReducer::AssignmentReducer(std::size_t largest)
    : row_dual_(largest), column_dual_(largest), open_dual_(largest), distance_(largest),
      from_(largest), row_of_(largest), zeros_(largest) {
  free_.reserve(largest);
  settled_.reserve(largest);
}

double AssignmentReducer::reduce(double *matrix, std::size_t n) {
  if (!start_duals(matrix, n))
    return unlimited;
  match_zeros(matrix, n);
  for (const std::size_t row : free_) {
    if (!augment(matrix, n, row))
      return unlimited;
  }
  double total = 0;
  for (std::size_t i = 0; i < n; ++i) {
    total += row_dual_[i] + column_dual_[i];
    subtract_duals(matrix + i * n, column_dual_.data(), row_dual_[i], n);
  }
  return total;
}

/// Row minima, then column minima of what is left; false if a line is infinite throughout.
bool AssignmentReducer::start_duals(const double *matrix, std::size_t n) {
  std::fill_n(column_dual_.begin(), n, unlimited);
  for (std::size_t i = 0; i < n; ++i) {
    row_dual_[i] = least_of(matrix + i * n, n);
    if (!(row_dual_[i] < unlimited))
      return false;
    lower_to(column_dual_.data(), matrix + i * n, row_dual_[i], n);
  }
  return std::all_of(column_dual_.begin(), column_dual_.begin() + static_cast<std::ptrdiff_t>(n),
                     [](double dual) { return dual < unlimited; });
}

/// Columns that the starting duals make zero, as bits; a row takes a free one, or one whose row can
/// move to a free one. Beyond 64 columns all rows are left to the augmenting paths.
void AssignmentReducer::match_zeros(const double *matrix, std::size_t n) {
  std::fill_n(row_of_.begin(), n, n);
  free_.clear();
  std::uint64_t open = n < 64 ? (std::uint64_t{1} << n) - 1 : ~std::uint64_t{0};
  for (std::size_t i = 0; i < n; ++i) {
    zeros_[i] = n <= 64 ? zeros_of(matrix + i * n, row_dual_[i], n) : 0;
    if (n > 64 || !take_zero(i, open))
      free_.push_back(i);
  }
}

std::uint64_t AssignmentReducer::zeros_of(const double *line, double row_dual,
                                          std::size_t n) const {
  std::uint64_t zeros = 0;
  for (std::size_t j = 0; j < n; ++j)
    zeros |= static_cast<std::uint64_t>(line[j] - row_dual <= column_dual_[j]) << j;
  return zeros;
}

bool AssignmentReducer::take_zero(std::size_t row, std::uint64_t &open) {
  const auto lowest = [](std::uint64_t bits) {
    return static_cast<std::size_t>(std::countr_zero(bits));
  };
  if ((zeros_[row] & open) != 0) {
    const std::size_t column = lowest(zeros_[row] & open);
    row_of_[column] = row;
    open ^= std::uint64_t{1} << column;
    return true;
  }
  for (std::uint64_t rest = zeros_[row]; rest != 0; rest &= rest - 1) {
    const std::size_t column = lowest(rest);
    const std::size_t other = row_of_[column];
    if ((zeros_[other] & open) == 0)
      continue;
    const std::size_t next = lowest(zeros_[other] & open);
    row_of_[next] = other;
    row_of_[column] = row;
    open ^= std::uint64_t{1} << next;
    return true;
  }
  return false;
}

/// Dijkstra over columns until a free one is settled; the duals of what was settled are shifted so
/// that reduced costs stay >= 0 and are 0 along the path.
bool AssignmentReducer::augment(const double *matrix, std::size_t n, std::size_t row) {
  std::fill_n(distance_.begin(), n, unlimited);
  std::copy_n(column_dual_.begin(), n, open_dual_.begin());
  settled_.clear();
  std::size_t here = row;
  double reached = 0;
  std::size_t column = n;
  while (true) {
    relax(distance_.data(), from_.data(), matrix + here * n, open_dual_.data(),
          reached - row_dual_[here], static_cast<double>(here), n);
    reached = least_of(distance_.data(), n);
    if (!(reached < unlimited))
      return false;
    column = 0;
    while (distance_[column] != reached)
      ++column;
    if (row_of_[column] == n)
      break;
    settled_.push_back({column, reached});
    open_dual_[column] = -unlimited; // never reached again
    distance_[column] = unlimited;
    here = row_of_[column];
  }
  row_dual_[row] += reached;
  for (const auto &[settled, distance] : settled_) {
    row_dual_[row_of_[settled]] += reached - distance;
    column_dual_[settled] -= reached - distance;
  }
  follow_back(column, row, n);
  return true;
}

/// Gives `column` to the row it was reached through, that row's old column to the one before, and
/// so on to `first`.
void AssignmentReducer::follow_back(std::size_t column, std::size_t first, std::size_t n) {
  while (true) {
    const auto row = static_cast<std::size_t>(from_[column]);
    row_of_[column] = row;
    if (row == first)
      return;
    std::size_t old = n;
    for (const auto &[settled, distance] : settled_) {
      if (row_of_[settled] == row && settled != column)
        old = settled;
    }
    column = old;
  }
}

double reduce_assignment(std::vector<double> &matrix, std::size_t n) {
  return AssignmentReducer(n).reduce(matrix.data(), n);
}

} // namespace toposeat
