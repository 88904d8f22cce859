// Lower bounds of the pairwise cost by dual ascent: the more passes, the tighter.
//
// Hahn, Grant, Lower bounds for the quadratic assignment problem based upon a dual formulation,
// Operations Research 46, 1998, on the level-1 reformulation-linearisation; fixing by reduced costs
// as in Adams, Guignard, Hahn, Hightower, European J. Oper. Res. 180, 2007. With x(i, j) = 1 where
// rank i is on device j,
//
//     cost = bound + sum of leader(i, j) x(i, j) + sum of quadratic(i, j, k, l) x(i, j) x(k, l)
//
// is kept for every placement while costs move into `bound` and nothing becomes negative.
//
// Applies to every Qap; memory and a pass grow with the fourth and fifth power of the devices. It
// proves that no placement costs less than `bound`.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "bounds/linear_assignment.hpp"
#include "toposeat/base/deadline.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// A quadratic assignment problem rewritten as bound + linear costs + quadratic costs, all >= 0,
/// with the same cost for every permutation. So `bound` is a lower bound, and `bound + leader(r,
/// d)` one for all placements with rank r on device d.
///
/// Dual ascent on the level-1 reformulation-linearisation (Hahn and Grant, Operations Research 46,
/// 1998): costs are moved between leaders and submatrices and between complementary entries, and
/// every submatrix and the leader matrix are reduced by a linear assignment. One pass is O(n^5).
///
/// What cannot be part of any placement of cost <= `enough` is struck out meanwhile (fixing by
/// reduced costs, as in Adams, Guignard, Hahn and Hightower, EJOR 180, 2007): a pair of rank and
/// device whose leader exceeds the room above the bound, and two such pairs together whose leaders
/// and quadratic costs do. From then on `bound` holds for placements of cost <= `enough` only.
class ReducedQap {
public:
  explicit ReducedQap(const Qap &qap);

  [[nodiscard]] std::size_t size() const { return ranks_.size(); }
  /// `unlimited` once nothing of cost <= enough is left.
  [[nodiscard]] double bound() const { return bound_; }
  [[nodiscard]] double leader(std::size_t row, std::size_t column) const {
    return leader_[row * size() + column];
  }
  /// Original numbers of the rows and columns that are left.
  [[nodiscard]] const std::vector<std::uint32_t> &ranks() const { return ranks_; }
  [[nodiscard]] const std::vector<std::uint32_t> &devices() const { return devices_; }

  /// Raises the bound until it exceeds `enough`, `passes` are done, a pass brings little, or time
  /// is up.
  void improve(double enough, int passes, const Deadline &deadline);

  /// The problem that remains with rank `row` placed on device `column` (positions, not numbers).
  [[nodiscard]] ReducedQap assign(std::size_t row, std::size_t column) const;

private:
  ReducedQap() = default;
  double &quadratic(std::size_t i, std::size_t j, std::size_t k, std::size_t l) {
    return quadratic_[((i * size() + j) * size() + k) * size() + l];
  }
  void spread_leaders();
  void reduce_submatrix(AssignmentReducer &reducer, std::size_t i, std::size_t j, double take,
                        double room);
  void gather_submatrix(std::size_t i, std::size_t j, double take, double room);
  void reduce_leaders(AssignmentReducer &reducer);
  void strike_out(double enough);

  double bound_ = 0;
  double forbidden_ = 0; // at least half of this: never; finite, so that sums and shares stay so
  int passes_done_ = 0;
  std::vector<double> leader_;    // [row][column]
  std::vector<double> quadratic_; // [row][column][row][column]
  std::vector<std::uint32_t> ranks_;
  std::vector<std::uint32_t> devices_;
  std::vector<double> scratch_;
};

} // namespace toposeat
