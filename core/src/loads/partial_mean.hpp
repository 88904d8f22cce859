// Bounds of weighted means of link congestion while ranks are placed one by one.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "toposeat/loads/weighted_links.hpp"
#include "toposeat/problem/network.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// A pairwise cost (see `link_means`) bounded from below for every way to complete a placement.
///
/// As in `solve_small_qap`: what is placed, plus for every other rank the least, over free devices,
/// of its cost to what is placed and the smallest product of its other flows with the distances
/// from there. Ranks are placed in a fixed order; O(devices^2) per placed rank, O(devices^3) per
/// bound of all devices.
class PartialMean {
public:
  PartialMean(const LinkMean &mean, const RankTraffic &traffic,
              const std::vector<std::uint32_t> &order);

  /// Least mean of all placements in which the next rank sits on `device` (a free one).
  [[nodiscard]] double bound_with(std::uint32_t device) const;

  void place(std::uint32_t device);
  void take_back();

private:
  [[nodiscard]] double *linear(std::size_t depth, std::size_t p) {
    return linear_.data() + (depth * order_ + p) * devices_;
  }
  [[nodiscard]] const double *linear(std::size_t depth, std::size_t p) const {
    return linear_.data() + (depth * order_ + p) * devices_;
  }
  [[nodiscard]] const double *ahead(std::size_t depth, std::size_t p) const {
    return ahead_.data() + (depth * order_ + p) * devices_;
  }
  void fill_ahead();

  std::size_t devices_;
  std::size_t order_; // ranks to be placed
  std::size_t depth_ = 0;
  LinkMean to_;                          // to_(d, a): from a to d, so that rows can be read in step
  LinkMean from_;                        // from_(d, a): from d to a
  Matrix sends_;                         // between ranks of the order
  std::vector<double> placed_;           // by depth
  std::vector<double> linear_;           // [depth][rank][device]: cost to what is placed
  std::vector<double> ahead_;            // [depth][rank][device]: least cost to what is not
  std::vector<double> blocked_;          // by device: 0 or infinite
  std::vector<std::uint32_t> device_of_; // by depth
};

} // namespace toposeat
