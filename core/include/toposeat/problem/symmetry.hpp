// Symmetries of a machine or of a traffic pattern, found in the numbers.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "toposeat/problem/matrix.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

/// Permutations of 0..n-1 under which a placement problem looks the same.
///
/// Used to prune: of several candidates that a symmetry exchanges while it leaves everything placed
/// so far alone, one is enough. Every "equivalent" is backed by a permutation that was found and
/// checked; a search that gives up answers "not equivalent", which costs time but no correctness.
class Symmetry {
public:
  using Check = std::function<bool(const std::vector<std::uint32_t> &)>;

  /// Permutations that preserve every entry of `matrix`.
  explicit Symmetry(const Matrix &matrix);

  /// Device permutations that map routes onto routes and links onto links of equal capacity, with
  /// equal caps and latencies: they leave congestion and flow time of every traffic unchanged.
  explicit Symmetry(const Network &network);

  /// Those of the network that preserve every entry of `matrix` too.
  Symmetry(const Network &network, const Matrix &matrix);

  /// Whether `image`, a permutation of 0..n-1, is a symmetry.
  [[nodiscard]] bool holds(const std::vector<std::uint32_t> &image) const;

  /// Fewest of `candidates` (in order) such that every other one is the image of one of them under
  /// a symmetry that fixes each of `fixed`.
  [[nodiscard]] std::vector<std::uint32_t>
  representatives(std::span<const std::uint32_t> fixed,
                  std::span<const std::uint32_t> candidates) const;

  /// A symmetry that fixes `fixed` and sends `from` to `to` exists and was found.
  [[nodiscard]] bool equivalent(std::span<const std::uint32_t> fixed, std::uint32_t from,
                                std::uint32_t to) const;

private:
  std::uint32_t size_ = 0;
  std::vector<std::uint32_t> colour_; // of each ordered pair; only equal colours can be exchanged
  Check check_;                       // of a whole permutation; empty: the colours say it all
};

} // namespace toposeat
