// What is minimised among placements on a small machine whose maximum is the least.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "few/last_four.hpp"
#include "few/link_sums.hpp"
#include "few/load_terms.hpp"
#include "few/own_links.hpp"
#include "few/partial_sum.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

/// The congestion of all links together, for an enumeration that places ranks one by one in an
/// order, by their places in it, and seats the last four in all ways at once.
class SmallSum {
public:
  /// Of more than four ranks.
  SmallSum(const Network &network, const SmallTable &bytes, std::size_t ranks);

  SmallSum(const SmallSum &) = delete;
  SmallSum &operator=(const SmallSum &) = delete;

  /// Lower bound with the rank at `depth` on a device, where `open` devices are left then.
  double bound(std::size_t depth, std::uint32_t device, std::uint32_t open);

  /// That rank is there from now on: on a device whose bound was asked for since those before it
  /// were placed.
  void place(std::size_t depth, std::uint32_t device);

  /// Bounds of the last four in every way, with the rank before them on a device: kept from when
  /// the bound was asked for.
  [[nodiscard]] const Ways &bounds_of_ways(std::uint32_t device) const { return bounds_[device]; }

  /// The sum itself in every way, with all ranks but the last four placed.
  Ways of_ways(const FourDevices &devices);

private:
  std::size_t ranks_;
  OwnLinks own_;
  PartialSum partial_;
  LinkSums exact_;
  std::array<Ways, small_width> bounds_{};
  std::uint32_t latest_ = 0; // device of the rank placed last
};

} // namespace toposeat
