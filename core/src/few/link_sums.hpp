// The sum of all links' congestion of placements that differ in the last four ranks.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "few/last_four.hpp"
#include "few/load_terms.hpp"
#include "few/own_links.hpp"
#include "few/sum_kernel.hpp"

namespace toposeat {

/// Exact, unlike `PartialSum`. Bytes of links are kept up to date by depth, and only for what is
/// asked: most of what a search looks at is ruled out before.
class LinkSums {
public:
  /// More than four ranks.
  LinkSums(const OwnLinks &own, const SmallTable &bytes, std::size_t ranks);

  /// The rank at this depth (ranks are placed in order) is on a device from now on.
  void place(std::size_t depth, std::uint32_t device) {
    device_[depth] = device;
    known_ = std::min(known_, depth);
  }

  /// Seconds of all links together in every way to seat the last four ranks; all others are placed.
  void of_ways(const FourDevices &devices, Ways &total);

private:
  void list_links(const Network &others);
  void settle(std::size_t depth);
  void settle_own(std::size_t depth);

  /// What the last four add among themselves on four devices.
  struct Among {
    bool known = false;
    std::vector<Ways> bytes; // [term]
    Ways own_seconds{};
  };
  const Among &among(const FourDevices &devices);

  DeviceLine *row(std::size_t depth, std::size_t p) {
    return rows_.data() + (depth * small_width + p) * table_.terms();
  }

  const OwnLinks &own_;
  const SmallTable &bytes_;
  std::size_t ranks_;
  SeatBytes by_seats_;           // of the last four
  std::vector<LinkPaces> paces_; // of the links that more than two devices use
  TermTable table_;              // of their bytes, see LinkPaces
  FourKernels kernels_ = four_kernels();
  SumKernels loops_ = sum_kernels();
  std::size_t known_ = 0;                          // depths that all below is up to date for
  std::vector<double> lines_;                      // [depth][term]: of what is placed
  std::vector<DeviceLine> rows_;                   // [depth][rank][term]
  std::array<double, small_width> own_lines_{};    // the same for the seconds of own links
  std::array<SmallTable, small_width> own_rows_{}; // [depth][rank]
  std::array<std::uint32_t, small_width> device_{};
  std::vector<Among> among_; // by number of the set of devices
};

} // namespace toposeat
