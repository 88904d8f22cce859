// What placements of few ranks on few devices cost while ranks are placed one by one.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "few/last_four.hpp"
#include "few/load_terms.hpp"
#include "toposeat/few/small_qap.hpp"
#include "toposeat/problem/prepared_qap.hpp"

namespace toposeat {

/// Costs and bounds as `solve_small_qap` describes them, all of the prepared problem. Ranks are
/// known by their place in the order in which they are placed.
class SmallCosts {
public:
  static constexpr std::size_t width = max_small_devices;
  static_assert(width == small_width);
  using Devices = std::array<std::uint32_t, width>; // of the ranks in order

  /// Must outlive the object; at most `max_small_devices` devices.
  explicit SmallCosts(const Qap &original);
  SmallCosts(const SmallCosts &) = delete;
  SmallCosts &operator=(const SmallCosts &) = delete;

  [[nodiscard]] const Qap &original() const { return original_; }
  [[nodiscard]] const PreparedQap &prepared() const { return prepared_; }

  /// Ranks that talk or are bound to a device, and if these are more than four, all.
  [[nodiscard]] const std::vector<std::uint32_t> &order() const { return order_; }

  /// Whether the last four ranks are seated at once with so many placed.
  [[nodiscard]] bool four_left(std::size_t placed) const {
    return placed > 0 && placed + last_ranks == order_.size() && order_.size() == original_.size();
  }

  /// Cost of each rank on each device with none placed: infinite where it cannot go.
  [[nodiscard]] SmallTable nothing_placed() const;

  /// Places the rank at `depth`, where `linear` has the cost of that rank and all after it, on each
  /// device, to those placed. Fills `next` with the same of the ranks after it, and returns a bound
  /// of what these add.
  double place(std::size_t depth, std::size_t device, const SmallTable &linear,
               SmallTable &next) const;

  /// Of the last four ranks in every way on the devices that the others leave; `placed` is the cost
  /// of those.
  Ways of_ways(double placed, const SmallTable &linear, const FourDevices &devices);

  /// The devices that the ranks before the last four leave.
  [[nodiscard]] FourDevices left_by(const Devices &placed) const;

  /// Of all ranks: silent ones that are not in the order take what devices are left.
  [[nodiscard]] Assignment whole(const Devices &devices) const;

private:
  /// A term of the cost.
  struct Product {
    SmallTable distance;
    SeatBytes flow; // of the last four
  };

  void add_product(const Matrix &flow, const Matrix &distance);
  void fill_pairs();
  void fill_ahead();
  [[nodiscard]] std::vector<double> flows_to(const Matrix &flow, std::size_t p,
                                             std::size_t first) const;
  const Ways &among(const FourDevices &devices);

  const Qap &original_;
  PreparedQap prepared_;
  const Qap &qap_; // the prepared one
  std::vector<std::uint32_t> order_;
  std::array<std::array<SmallTable, width>, width> pair_{}; // [rank][rank][device]
  // [k][p]: least cost of what rank p of the order sends to ranks k, k + 1, ... on devices.
  std::array<SmallTable, width + 1> ahead_{};
  std::vector<Product> products_; // where the last four are seated at once
  FourKernels kernels_ = four_kernels();
  std::vector<Ways> among_ = std::vector<Ways>(four_sets); // of the last four, by set of devices
  std::bitset<four_sets> known_;
};

/// All placements in which the first ranks of the order are on these devices. Where only the last
/// four are left, those of their ways that are not before `way` by cost and, of equal cost, number.
struct OpenPart {
  double bound = 0;             // nothing among them costs less
  std::uint32_t devices = 0;    // three bits each, the first rank's lowest
  std::uint8_t placed = 0;      // ranks
  std::uint8_t way = last_ways; // none: all of them
  bool symmetric = true;        // a symmetry of the machine may leave these devices where they are

  /// With the rank at `depth` on a device too.
  [[nodiscard]] OpenPart with(double bound_then, std::size_t depth, std::size_t device) const {
    const std::uint32_t more = static_cast<std::uint32_t>(device) << (3 * depth);
    return {bound_then, devices | more, static_cast<std::uint8_t>(depth + 1), last_ways, symmetric};
  }
  [[nodiscard]] std::uint32_t device(std::size_t depth) const {
    return devices >> (3 * depth) & 7U;
  }
  [[nodiscard]] SmallCosts::Devices all() const {
    SmallCosts::Devices list{};
    for (std::size_t p = 0; p < placed; ++p)
      list[p] = device(p);
    return list;
  }
};

} // namespace toposeat
