// Of placements that symmetries make of each other, one: which devices a rank need be tried on.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "toposeat/problem/symmetry.hpp"

namespace toposeat {

/// For searches that place ranks one by one, in an order, on at most 8 devices; sets of devices are
/// bits. See `later_twins` for why nothing is missed.
class OrbitLeaders {
public:
  /// What `later_twins` says of the order; no symmetries of the machine are looked for.
  explicit OrbitLeaders(std::vector<std::uint32_t> twins) : twins_(std::move(twins)) {
    for (const std::uint32_t each : twins_)
      with_earlier_ |= each;
  }

  /// These too.
  OrbitLeaders(Symmetry machine, std::vector<std::uint32_t> twins)
      : OrbitLeaders(std::move(twins)) {
    machine_.emplace(std::move(machine));
  }

  /// Of the devices of a set, the least of those that symmetries of the machine exchange while they
  /// fix what the ranks before have. Clears `symmetric` if that leaves the set as it is: then it
  /// does for everything below. Remembered.
  std::uint32_t least(std::span<const std::uint32_t> fixed, std::uint32_t set, bool &symmetric);

  /// Devices greater than those of the earlier twins of the rank at `place`, of the ranks in
  /// `fixed`.
  [[nodiscard]] std::uint32_t above_twins(std::span<const std::uint32_t> fixed,
                                          std::size_t place) const;

  /// Whether the rank at a later place must be on a greater device than the one at an earlier.
  [[nodiscard]] bool twins(std::size_t earlier, std::size_t later) const {
    return (twins_[earlier] >> later & 1U) != 0;
  }

  /// Ways (see last_four.hpp) in which one of the last four ranks, of which the first is at a
  /// place, is on a greater device than a later twin.
  [[nodiscard]] std::uint32_t ways_against_twins(std::size_t first) const;

private:
  std::optional<Symmetry> machine_;
  std::vector<std::uint32_t> twins_;
  std::uint32_t with_earlier_ = 0; // places of ranks that have earlier twins
  std::unordered_map<std::uint64_t, std::uint32_t> known_;
};

} // namespace toposeat
