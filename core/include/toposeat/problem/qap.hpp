// The pairwise cost of a placement as a quadratic assignment problem.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "toposeat/problem/matrix.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

[[nodiscard]] bool is_symmetric(const Matrix &matrix);

/// Whether exchanging rows and columns i and j leaves the matrix as it is, its diagonal apart.
[[nodiscard]] bool exchange_keeps(const Matrix &matrix, std::size_t i, std::size_t j);

/// For each rank the devices that it may use. A default-constructed object restricts nothing.
class DeviceSets {
public:
  DeviceSets() = default;
  /// Every rank may use every device, until one is forbidden.
  DeviceSets(std::size_t ranks, std::size_t devices)
      : words_((devices + 63) / 64), bits_(ranks * words_, ~std::uint64_t{0}) {}

  /// Nothing is restricted and nothing is stored.
  [[nodiscard]] bool empty() const { return bits_.empty(); }
  [[nodiscard]] bool contains(std::size_t rank, std::size_t device) const {
    return bits_.empty() || (bits_[rank * words_ + device / 64] >> (device % 64) & 1U) != 0;
  }
  void forbid(std::size_t rank, std::size_t device) {
    bits_[rank * words_ + device / 64] &= ~(std::uint64_t{1} << (device % 64));
  }

private:
  std::size_t words_ = 0;
  std::vector<std::uint64_t> bits_;
};

/// Minimise over permutations p the sum over directed pairs (r, s) of
///
///     flow(r, s) * distance(p[r], p[s])  +  flow2(r, s) * distance2(p[r], p[s])
///
/// All matrices are n x n, zero on the diagonal, non-negative, and need not be symmetric; the
/// second pair is empty (n = 0) unless the cost has two terms (the hybrid metric: bytes x seconds
/// per byte + messages x seconds per message). Ranks `active`..n-1 are dummies, idle as a rank
/// without traffic is: they fill the devices that no rank of the job needs. `pinned[r]` is the
/// device that rank r must have, or `no_pin`. `allowed` restricts the others (and agrees with the
/// pins); idle ranks never are.
///
/// A "device" is a seat: a device that takes k ranks stands k times in the matrices, at a distance
/// from itself that a copy within the device costs. So answers are always permutations.
struct Qap {
  static constexpr std::uint32_t no_pin = toposeat::no_pin;

  Matrix flow;
  Matrix distance;
  std::size_t active = 0;
  std::vector<std::uint32_t> pinned;
  Matrix flow2 = {};
  Matrix distance2 = {};
  DeviceSets allowed = {};

  [[nodiscard]] std::size_t size() const { return flow.n; }
  [[nodiscard]] bool free_rank(std::size_t rank) const { return pinned[rank] == no_pin; }
  [[nodiscard]] bool has_second_term() const { return flow2.n != 0; }
  [[nodiscard]] bool may_use(std::size_t rank, std::size_t device) const {
    return (pinned[rank] == no_pin || pinned[rank] == device) && allowed.contains(rank, device);
  }
  /// Ranks r and s may exchange their devices.
  [[nodiscard]] bool may_swap(std::span<const std::uint32_t> placement, std::size_t r,
                              std::size_t s) const {
    return may_use(r, placement[s]) && may_use(s, placement[r]);
  }
  /// What both terms together charge for r -> s when they sit on a and b.
  [[nodiscard]] double pair_cost(std::size_t r, std::size_t s, std::size_t a, std::size_t b) const {
    const double first = flow(r, s) * distance(a, b);
    return has_second_term() ? first + flow2(r, s) * distance2(a, b) : first;
  }
};

/// What a solver takes into account besides one product of flow and distance, and pins. Each solver
/// states its scope beside its declaration; outside of it, it must not be called.
struct SolverScope {
  bool second_term = false;
  bool allowed = false;

  [[nodiscard]] bool covers(const Qap &qap) const {
    return (second_term || !qap.has_second_term()) && (allowed || qap.allowed.empty());
  }
};

/// The problem of placing `traffic` on devices with the given pairwise cost; pads with idle
/// ranks. `message_cost`, if not empty, is the second term: what a message costs on top of its
/// bytes. Throws std::invalid_argument if there are more ranks than devices, a cost is negative or
/// not finite, or the largest possible sum overflows.
[[nodiscard]] Qap make_qap(const RankTraffic &traffic, const Matrix &cost,
                           const Matrix &message_cost = {});

[[nodiscard]] double qap_cost(const Qap &qap, std::span<const std::uint32_t> placement);

/// Change of cost when ranks r and s exchange their devices; O(n).
[[nodiscard]] double swap_delta(const Qap &qap, std::span<const std::uint32_t> placement,
                                std::size_t r, std::size_t s);

/// Smallest difference between two different costs that the data allow: 1 or 2 for integer data
/// (2 when both matrices are symmetric), otherwise 0. Lets a bound be rounded up.
[[nodiscard]] double cost_step(const Qap &qap);

/// Whether a is less than b by more than 1e-9 of b; whatever is finite is less than infinity.
[[nodiscard]] inline bool less_by_tolerance(double a, double b) {
  return a < b * (b < 0 ? 1 + 1e-9 : 1 - 1e-9);
}

/// The best placement known and what was proved about the best possible one.
struct BoundedAnswer {
  Assignment placement; // of all ranks, idle ones included
  double value = 0;
  double lower_bound = 0;
  bool proved = false; // lower_bound reached value (within 1e-9 relative)
};

} // namespace toposeat
