// What is minimised among placements on a small machine whose maximum is within a limit.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "last_four.hpp"
#include "link_sums.hpp"
#include "load_terms.hpp"
#include "own_links.hpp"
#include "partial_sum.hpp"
#include "toposeat/network.hpp"
#include "toposeat/qap.hpp"

namespace toposeat {

/// For an enumeration that places ranks one by one in an order, by their places in it, and seats
/// the last four in all ways at once.
class SmallSum {
public:
  /// The congestion of all links together, of more than four ranks.
  SmallSum(const Network &network, const SmallTable &bytes, std::size_t ranks);

  /// The pairwise cost of `qap`, its ranks in this order; of more than four.
  SmallSum(const Qap &qap, const std::vector<std::uint32_t> &order);

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
  std::unique_ptr<OwnLinks> own_; // null for a pairwise cost
  PartialSum partial_;
  std::optional<LinkSums> exact_; // unless the bounds of ways are
  std::array<Ways, small_width> bounds_{};
  std::uint32_t latest_ = 0; // device of the rank placed last
};

} // namespace toposeat
