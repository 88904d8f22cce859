// The last four ranks of an enumeration on the last four devices: all ways at once.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "load_terms.hpp"

namespace toposeat {

inline constexpr std::size_t last_ranks = 4;
inline constexpr std::size_t last_ways = 24; // to seat them
using FourDevices = std::array<std::uint32_t, last_ranks>;
using Ways = std::array<double, last_ways>; // a number per way

inline constexpr std::size_t four_sets = 70; // of four devices out of eight

/// Number of a set of four devices, in rising order, among all such sets of eight devices.
constexpr std::size_t number_of(const FourDevices &devices) {
  const std::size_t b = devices[1];
  const std::size_t c = devices[2];
  const std::size_t d = devices[3];
  return devices[0] + b * (b - 1) / 2 + c * (c - 1) * (c - 2) / 6 +
         d * (d - 1) * (d - 2) * (d - 3) / 24;
}
static_assert(number_of({0, 1, 2, 3}) == 0 && number_of({4, 5, 6, 7}) == four_sets - 1);

/// Which of the four devices rank k of the four has in a way. Four ways in a row differ by a
/// rotation: whatever depends on one rank's device is then one vector, rotated.
constexpr std::size_t last_seat(std::size_t way, std::size_t k) {
  constexpr std::array<std::array<std::size_t, last_ranks>, 6> shifts{
      {{0, 1, 2, 3}, {0, 1, 3, 2}, {0, 2, 1, 3}, {0, 2, 3, 1}, {0, 3, 1, 2}, {0, 3, 2, 1}}};
  return (shifts[way / last_ranks][k] + way % last_ranks) % last_ranks;
}

/// What the four add among themselves to every sum of a `TermTable`, in every way: [term][way].
using AmongFour = std::vector<Ways>;

/// `bytes[first + k]` are those of rank k of the four.
AmongFour among_four(const TermTable &table, const SmallTable &bytes, std::size_t first,
                     const FourDevices &devices);

/// The sums of a table with the first ranks placed, and what the four add to that.
struct FourLoads {
  std::size_t terms = 0;
  const double *placed = nullptr;                    // [term]: of all that is placed
  std::array<const DeviceLine *, last_ranks> rows{}; // [rank][term]: what it adds, by its device
  const Ways *among = nullptr;                       // [term]
  FourDevices devices{};
};

/// What a rank can expect on each of the four devices: [rank][device].
using FourByFour = std::array<std::array<double, last_ranks>, last_ranks>;

/// Raises `most` to the largest of what the four expect and the sums, in each way. Stops and returns
/// false once none is below `limit`.
using RaiseToLargest = bool (*)(const FourLoads &loads, const FourByFour &expected, double limit,
                                Ways &most);

/// The only sum of a table, in each way.
using OneSum = Ways (*)(const FourLoads &loads);

/// Bytes of a link are the sums 2 i (forward) and 2 i + 1 (backward); seconds per byte of either
/// direction, and of both together.
struct LinkPaces {
  double forward = 0;
  double backward = 0;
  double combined = 0;
};

/// Adds the seconds of all links to `total` in each way.
using AddLinkSeconds = void (*)(const FourLoads &loads, const LinkPaces *paces, Ways &total);

struct FourKernels {
  RaiseToLargest raise_to_largest;
  OneSum one_sum;
  AddLinkSeconds add_link_seconds;
};

/// For this processor; the results are the same whatever it offers.
FourKernels four_kernels();

} // namespace toposeat
