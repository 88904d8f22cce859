// Placements that look the same: devices and ranks that may change places without any effect.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "toposeat/base/mixed_bits.hpp"
#include "toposeat/loads/load_branching.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// Numbers placements so that those get the same number that exchanges of twin devices or of twin
/// ranks make of each other: they have equal loads, equal times, and equal costs where the cost
/// comes from the links. Twins are pairs whose exchange alone is a symmetry, such as the devices
/// below one switch; images under larger symmetries get other numbers. Different placements share
/// a number by accident once in 2^64, which a search that skips one of them can live with.
class Alike {
public:
  /// A placement gives a device to every row of `qap`, silent ranks included.
  Alike(const LoadProblem &problem, const Qap &qap);

  [[nodiscard]] std::uint64_t number(std::span<const std::uint32_t> placement) const;
  /// What it becomes when ranks r and s exchange their devices.
  [[nodiscard]] std::uint64_t exchanged(std::uint64_t number,
                                        std::span<const std::uint32_t> placement, std::size_t r,
                                        std::size_t s) const {
    return number - seat(r, placement[r]) - seat(s, placement[s]) + seat(r, placement[s]) +
           seat(s, placement[r]);
  }

private:
  /// The sum over ranks does not depend on which of two twins has which device.
  [[nodiscard]] std::uint64_t seat(std::size_t rank, std::size_t device) const {
    const std::uint64_t classes =
        (std::uint64_t{class_of_rank_[rank]} << 32U) + class_of_device_[device];
    return mixed_bits((classes + 1) * 0x9e3779b97f4a7c15U); // the first number of SplitMix64
  }

  std::vector<std::uint32_t> class_of_rank_; // the first rank of its class
  std::vector<std::uint32_t> class_of_device_;
};

} // namespace toposeat
