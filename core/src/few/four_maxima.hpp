// The largest congestion of placements that differ in the last four ranks.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "few/last_four.hpp"
#include "few/load_kernel.hpp"
#include "few/load_terms.hpp"

namespace toposeat {

/// Where an enumeration is when all ranks but the last four have their device.
struct BeforeFour {
  const double *placed = nullptr;     // [term]: of all but the latest
  const DeviceLine *rows = nullptr;   // [rank][term]: what a rank adds then, by its device
  const Prospect *expected = nullptr; // [rank]: likewise
  std::uint32_t device = 0;           // of the latest
  FourDevices devices{};              // that are left
  std::array<std::uint32_t, last_ranks> permitted{}; // devices of each of the four, as a set
};

class FourMaxima {
public:
  /// Of so many ranks, more than four, of which the last four may not be in the ways of a set.
  FourMaxima(const LoadTerms &terms, const SmallTable &bytes, std::size_t ranks,
             std::uint32_t forbidden_ways);

  /// Raises `most` to the largest term in each way, infinite where a rank may not be. If none is
  /// below `limit`, returns false, and `most` means nothing.
  bool any_below(double limit, const BeforeFour &here, Ways &most);

private:
  /// What four devices and the last four ranks on them have whatever else is placed.
  struct Among {
    bool known = false;
    std::vector<Ways> shared; // [term]
    std::vector<char> filled; // [term]
    Ways lone{};              // the largest term that is not shared; infinite for forbidden ways
  };

  Among &among(const FourDevices &devices);
  void fill(std::size_t first, std::size_t end, const FourDevices &devices, Among &among) const;
  [[nodiscard]] FourByFour expected(const BeforeFour &here) const;
  void try_first(std::size_t term);

  const LoadTerms &terms_;
  const SmallTable &bytes_;
  std::size_t first_;  // of the last four
  SeatBytes by_seats_; // theirs
  std::uint32_t forbidden_ways_;
  FourKernels kernels_ = four_kernels();
  std::vector<std::uint32_t> order_; // of terms: those first that rule most out
  std::vector<Among> among_;         // by number of the set of devices
};

} // namespace toposeat
