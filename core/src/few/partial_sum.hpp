// Lower bound of the sum of all links' congestion while ranks are placed on a small machine.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <vector>

#include "few/last_four.hpp"
#include "few/load_terms.hpp"
#include "few/own_links.hpp"
#include "few/sum_kernel.hpp"

namespace toposeat {

/// A pairwise cost: exact for links that lie between two devices alone, and for all others the mean
/// of both directions (or what they fill together), which their congestion never is below. Of that
/// cost what is placed, and for all other ranks the larger of two sums of minima, over the free
/// devices of each rank and over the ranks for each free device, of the cost to what is placed and
/// of half the least products of what is exchanged with other free ranks and the paces from there
/// to other free devices (Gilmore and Lawler; see `solve_small_qap`).
class PartialSum {
public:
  PartialSum(const OwnLinks &own, const SmallTable &bytes, std::size_t ranks);

  /// With the rank at this place on a device, all later ones on some devices of the set `open`.
  /// Those at earlier places are where they were placed.
  double bound(std::size_t place, std::uint32_t device, std::uint32_t open);

  /// The rank at this place is there from now on: on a device whose bound was asked for since those
  /// before it were placed.
  void place(std::size_t place, std::uint32_t device) { device_[place] = device; }

  /// With the last rank but four on a device, the others in each way on the devices that are left:
  /// the pairwise cost itself.
  Ways of_ways(std::uint32_t device, const FourDevices &devices);

private:
  /// What ranks pay by their device, with those before a place where they are.
  struct Costs {
    double placed = 0;
    SmallTable linear{}; // [rank][device]
  };

  void list_halves();
  const Costs &before(std::size_t place) const {
    return place == 0 ? none_ : below_[place - 1][device_[place - 1]];
  }
  void add_placed(const Costs &here, std::size_t place, std::uint32_t device, std::size_t first,
                  Costs &below) const;
  const Ways &among(const FourDevices &devices);
  const SmallTable &rising(std::uint32_t open);

  SmallTable bytes_;
  std::size_t ranks_;
  SeatBytes by_seats_; // of the last four
  FourKernels kernels_ = four_kernels();
  SumKernels loops_ = sum_kernels();
  SmallTable leaving_{}; // pace of the shared links, [device][peer]
  SmallTable entering_{};
  SmallTable least_{};                           // per byte between two ranks, both ways together
  std::array<LonePaces, small_width> own_{};     // of a link between two devices alone, by device
  std::array<SmallTable, small_width> halves_{}; // [place][rank]: of later peers, see RanksAhead
  std::array<std::array<std::uint8_t, small_width>, small_width> peers_{}; // [place][rank]
  std::vector<SmallTable>
      rising_; // of some set of devices: k-th least pace from each to the others
  std::vector<std::uint16_t> number_; // of a set there, plus one, or 0
  Costs none_;
  std::array<std::array<Costs, small_width>, small_width - last_ranks> below_{}; // [place][device]
  std::array<std::uint32_t, small_width> device_{};                              // by place
  std::vector<Ways> among_; // of the last four ranks, by number of the set of devices
  std::bitset<four_sets> known_;
};

} // namespace toposeat
