// Lower bound of the sum of all links' congestion while ranks are placed on a small machine.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <vector>

#include "last_four.hpp"
#include "load_terms.hpp"
#include "own_links.hpp"

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

  /// Of any pairwise cost: what a byte costs, and what a message costs besides, by devices from and
  /// to. The bounds know of bytes alone.
  PartialSum(const SmallTable &byte_cost, const SmallTable &bytes, const SmallTable &message_cost,
             const SmallTable &messages, std::size_t ranks);

  /// With rank p on a device at this depth, the others `left` on some devices of the set `open`.
  /// Those at lesser depths stay as they were placed.
  double place(std::size_t depth, std::uint32_t p, std::uint32_t device,
               std::span<const std::uint32_t> left, std::uint32_t open);

  /// With rank p on a device at this depth, the last four of all ranks in each way on the devices
  /// that are left: the pairwise cost itself.
  Ways of_ways(std::size_t depth, std::uint32_t p, std::uint32_t device,
               const FourDevices &devices);

private:
  /// What an amount by ranks from and to costs, each unit as much as the devices say.
  struct Product {
    SmallTable amount{};
    SmallTable leaving{};  // [device][peer]
    SmallTable entering{}; // the same, the other way
    SeatBytes by_seats{};  // amounts of the last four
  };

  void sort_peers(std::size_t ranks);
  void add_placed(std::size_t depth, std::uint32_t p, std::uint32_t device, std::uint32_t q);
  const Ways &among(const FourDevices &devices);
  const SmallTable &rising(std::uint32_t open);
  void add_ahead(DeviceLine &line, std::uint32_t q, std::uint32_t others,
                 const SmallTable &paces) const;

  SmallTable bytes_;
  std::size_t ranks_;
  SeatBytes by_seats_;            // of the last four
  std::vector<Product> messages_; // one, or none
  FourKernels kernels_ = four_kernels();
  SmallTable leaving_{}; // pace of the shared links, [device][peer]
  SmallTable entering_{};
  SmallTable least_{};                       // per byte between two ranks, both ways together
  std::array<LonePaces, small_width> own_{}; // of a link between two devices alone, by device
  std::array<std::vector<std::uint32_t>, small_width> peers_; // of each rank, falling by bytes
  std::vector<SmallTable>
      rising_; // of some set of devices: k-th least pace from each to the others
  std::vector<std::uint16_t> number_;                // of a set there, plus one, or 0
  std::array<SmallTable, small_width + 1> linear_{}; // [depth][rank][device]: with those placed
  std::array<double, small_width + 1> placed_{};
  std::vector<Ways> among_; // of the last four ranks, by number of the set of devices
  std::bitset<four_sets> known_;
};

} // namespace toposeat
