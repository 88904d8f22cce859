// The innermost loops of the bounds of a sum over links.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "few/load_terms.hpp"

namespace toposeat {

/// A rank has got its device: what it exchanges with those at later places of the order.
struct PlacedRank {
  const SmallTable *bytes = nullptr;    // between ranks, by their places
  std::size_t place = 0;                // of the rank
  std::size_t end = 0;                  // of the order
  const DeviceLine *leaving = nullptr;  // what a byte from its device to a peer costs
  const DeviceLine *entering = nullptr; // and a byte from there
  const LonePaces *own = nullptr;       // links between two devices alone, see `OwnLinks`
};

/// What ranks of no device yet exchange among themselves.
struct RanksAhead {
  const SmallTable *halves = nullptr;      // [rank]: half of what it exchanges, falling by peer
  const std::uint8_t *peers = nullptr;     // [rank]: how many there are
  const SmallTable *least_paces = nullptr; // [k][device]: the k-th least of an open device
  std::uint32_t open = 0;                  // devices, as a set
};

struct SumKernels {
  /// Costs of later ranks by their device, with what they exchange with the rank: from `here` to
  /// `below`, for places from `first` on.
  void (*add_placed)(const PlacedRank &rank, std::size_t first, const SmallTable &here,
                     SmallTable &below);

  /// Lower bound of what the ranks from `first` to `end` cost on open devices: the larger of the
  /// sums of minima by rank and, if there are as many ranks as open devices, by device.
  double (*least_ahead)(const SmallTable &costs, std::size_t first, std::size_t end,
                        const RanksAhead &ahead);

  /// Adds to lines of a rank, one per term, what it exchanges with a rank that has got its device.
  void (*add_terms)(const DeviceLine *here, const DeviceLine *leaving, const DeviceLine *entering,
                    double received, double sent, std::size_t terms, DeviceLine *below);
};

/// For this processor; the results are the same whatever it offers.
[[nodiscard]] SumKernels sum_kernels();

/// All that this processor can run, the best first. For tests.
[[nodiscard]] std::vector<SumKernels> every_sum_kernels();

} // namespace toposeat
