// What ranks can expect of link loads while an enumeration places them one by one.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "few/four_maxima.hpp"
#include "few/last_four.hpp"
#include "few/load_kernel.hpp"
#include "few/load_terms.hpp"
#include "toposeat/few/small_loads.hpp"

namespace toposeat {

/// By depth: how many ranks of an order, the first ones, have their device. What holds at a depth
/// stays as it is while others below are tried.
class LoadProspects {
public:
  /// The first `talking` ranks of the order exchange something, `bytes` are what all do, by their
  /// places. Ranks and devices beyond those of the problem stand in for none. All must outlive the
  /// object; `limit` may be null.
  LoadProspects(const LoadProblem &problem, const std::vector<std::uint32_t> &order,
                std::size_t talking, const SmallTable &bytes, const TimeLimit *limit);

  [[nodiscard]] const LoadTerms &terms() const { return terms_; }

  /// Nobody is placed: floors and permitted devices alone count.
  void start(std::uint32_t devices);

  /// Largest term at least, with a rank that is not placed on some device: infinite where it may
  /// not be.
  [[nodiscard]] const DeviceLine &most(std::size_t depth, std::size_t place) const {
    return prospects_[depth][place].most;
  }

  /// The rank at the place `depth` is on a device, and so many are open for the others.
  void settle(std::size_t depth, std::uint32_t device, std::uint32_t open);

  /// For the last four, with the rank at the place `depth` on a device: all but what is permitted.
  [[nodiscard]] BeforeFour before_four(std::size_t depth, std::uint32_t device) const;

  /// Devices on which the rank at a later place can be with that at `depth` on a device, as far as
  /// time is limited.
  [[nodiscard]] std::uint32_t devices_beside(std::size_t depth, std::uint32_t device,
                                             std::size_t later) const;

private:
  static constexpr std::size_t most_depth = small_width - last_ranks; // ranks placed one by one
  using Prospects = std::array<Prospect, small_width>;                // by place

  [[nodiscard]] std::size_t row(std::size_t depth, std::size_t place) const {
    return (depth * small_width + place) * terms_.shared().terms();
  }

  const LoadProblem &problem_;
  const std::vector<std::uint32_t> &order_;
  std::size_t talking_;
  const SmallTable &bytes_;
  const TimeLimit *limit_;
  LoadTerms terms_;
  SettleRows settle_ = settle_rows();
  std::array<Prospects, most_depth> prospects_{};
  std::vector<double> lines_;    // [depth][term]: of all that is placed
  std::vector<DeviceLine> rows_; // [depth][place][term]: what a rank adds, by its device
};

} // namespace toposeat
