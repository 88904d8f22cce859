// A pairwise cost reduced to the ranks that may move, in the smallest arithmetic that is exact.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "toposeat/problem/network.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// One summand of A[i][a] = sum over k of flow(i, k) * distance(a, p[k]).
///
/// A directed flow over directed distances takes two halves, the second with both matrices
/// transposed. If either is symmetric, the other may be made so, and one half holds all of it.
struct HalfTerm {
  Matrix flow;      // movable rank x movable rank
  Matrix distance;  // free device x free device
  std::size_t mate; // number of the half that has both matrices transposed; itself if symmetric
};

/// Positions 0..n-1 stand for the ranks without a pin and for the devices that no pin takes.
///
///     cost(p) = fixed + unit * (sum over i < k of pair(i, k) + sum over i of linear(i, p[i]))
///
/// where pair(i, k) is what ranks i and k cost together: half of the sum over k != i of all A[i].
struct SwapProblem {
  std::size_t n = 0;
  std::vector<std::uint32_t> ranks;   // in the Qap, of each position
  std::vector<std::uint32_t> devices; // in the Qap, of each position
  std::vector<HalfTerm> halves;
  Matrix linear;                         // rank x device; size 0 if all are zero
  std::vector<std::uint8_t> not_allowed; // rank x device; empty if every rank may go everywhere
  /// Two ranks of a class, or ranks on two devices of a class, may change places at no cost: idle
  /// ranks, seats of one device, leaves of one switch.
  std::vector<std::uint32_t> class_of_rank;
  std::vector<std::uint32_t> class_of_device;
  std::vector<std::uint8_t> idle; // ranks to which all devices are the same
  double fixed = 0;
  double unit = 1;
  bool small_integers = false; // all sums and products fit into 32 bits

  [[nodiscard]] bool allowed(std::size_t rank, std::size_t device) const {
    return not_allowed.empty() || not_allowed[rank * n + device] == 0;
  }
  [[nodiscard]] bool may_exchange(std::span<const std::uint32_t> placement, std::size_t i,
                                  std::size_t j) const {
    return allowed(i, placement[j]) && allowed(j, placement[i]);
  }
  /// From devices by rank of the Qap to devices by rank of this problem, and back into `whole`.
  [[nodiscard]] Assignment reduced(const Assignment &whole) const;
  void expand(std::span<const std::uint32_t> placement, Assignment &whole) const;
};

/// Understands everything that a Qap may hold, and diagonal entries; the Qap may be discarded.
SwapProblem make_swap_problem(const Qap &qap);

} // namespace toposeat
