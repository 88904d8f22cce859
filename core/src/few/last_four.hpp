// The last four ranks of an enumeration on the last four devices: all ways at once.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "few/load_terms.hpp"

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

/// Four devices as a set, in rising order.
inline FourDevices four_of(std::uint32_t set) {
  FourDevices devices{};
  for (std::size_t count = 0; set != 0; set &= set - 1)
    devices[count++] = static_cast<std::uint32_t>(std::countr_zero(set));
  return devices;
}

/// Which of the four devices rank k of the four has in a way. Four ways in a row differ by a
/// rotation: whatever depends on one rank's device is then one vector, rotated.
constexpr std::size_t last_seat(std::size_t way, std::size_t k) {
  constexpr std::array<std::array<std::size_t, last_ranks>, 6> shifts{
      {{0, 1, 2, 3}, {0, 1, 3, 2}, {0, 2, 1, 3}, {0, 2, 3, 1}, {0, 3, 1, 2}, {0, 3, 2, 1}}};
  return (shifts[way / last_ranks][k] + way % last_ranks) % last_ranks;
}

/// For every two of the four and their seats some number; added up, or the largest, in each way.
template <class Number, class Join> Ways over_pairs(Number number, Join join) {
  Ways all{};
  for (std::size_t k = 1; k < last_ranks; ++k) {
    for (std::size_t l = 0; l < k; ++l) {
      std::array<std::array<double, last_ranks>, last_ranks> by_seats{};
      for (std::size_t a = 0; a < last_ranks; ++a) {
        for (std::size_t b = 0; b < last_ranks; ++b) {
          if (a != b)
            by_seats[a][b] = number(k, a, l, b);
        }
      }
      for (std::size_t way = 0; way < last_ways; ++way)
        all[way] = join(all[way], by_seats[last_seat(way, k)][last_seat(way, l)]);
    }
  }
  return all;
}

/// Of all ways. Four in turn: one least value waits for the one before.
inline double least_of(const Ways &ways) {
  std::array<double, last_ranks> least{ways[0], ways[1], ways[2], ways[3]};
  for (std::size_t way = last_ranks; way < last_ways; way += last_ranks) {
    for (std::size_t k = 0; k < last_ranks; ++k)
      least[k] = ways[way + k] < least[k] ? ways[way + k] : least[k];
  }
  return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
}

/// What the rank on one of the four devices sends to that on another, in each way: [from][to].
using SeatBytes = std::array<std::array<Ways, last_ranks>, last_ranks>;

/// Of the last four ranks; the first of them is at place `first`.
SeatBytes bytes_by_seats(const SmallTable &bytes, std::size_t first);

/// What the four add among themselves to a sum of a `TermTable`, in every way. The devices rise.
using FillAmong = void (*)(const TermTable &table, std::size_t term, const SeatBytes &bytes,
                           const FourDevices &devices, Ways &among);

/// Adds what they pay among themselves, where a byte between devices costs so much: [from][to].
using AddCosts = void (*)(const SmallTable &costs, const SeatBytes &bytes,
                          const FourDevices &devices, Ways &total);

/// Joins the seconds of the links between two of them alone, see `OwnLinks`, to what is known.
using JoinOwn = void (*)(const std::array<LonePaces, small_width> &own, const SeatBytes &bytes,
                         const FourDevices &devices, Ways &joined);

/// The sums of a table without the rank that was placed last, that rank on its device, and what the
/// four add then. Rows are made up to date where they are used: most are not.
struct FourLoads {
  std::size_t terms = 0;
  const double *placed = nullptr;                    // [term]: of all that was placed before
  const DeviceLine *latest_row = nullptr;            // [term]: what the latest adds, by its device
  std::array<const DeviceLine *, last_ranks> rows{}; // [rank][term]: what each of the four adds
  std::uint32_t device = 0;                          // of the latest
  const DeviceLine *leaving = nullptr;               // [term][peer]: paces of a byte from there
  const DeviceLine *entering = nullptr;              // and of a byte to there
  std::array<double, last_ranks> sent{};             // by each of the four to the latest
  std::array<double, last_ranks> received{};
  const Ways *among = nullptr; // [term]
  FourDevices devices{};
};

/// What a rank can expect on each of the four devices: [rank][device].
using FourByFour = std::array<std::array<double, last_ranks>, last_ranks>;

/// Terms from one look at the limit to the next.
inline constexpr std::size_t terms_at_once = 4;

/// Raises `most` to the largest of what the four expect and the sums, in each way, in the given
/// order of terms. Returns the number of terms after which no way was below `limit`; more than
/// there are if some way is.
using RaiseToLargest = std::size_t (*)(const FourLoads &loads, const std::uint32_t *order,
                                       const FourByFour &expected, double limit, Ways &most);

/// `placed` and what each of the four adds on its device and with the others, in each way.
using OneSum = Ways (*)(double placed, const SmallTable &rows, std::size_t first,
                        const FourDevices &devices, const Ways &among);

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
  FillAmong fill_among;
  AddCosts add_costs;
  JoinOwn add_own;
  JoinOwn raise_to_own;
  RaiseToLargest raise_to_largest;
  OneSum one_sum;
  AddLinkSeconds add_link_seconds;
};

/// For this processor; the results are the same whatever it offers.
FourKernels four_kernels();

/// All that this processor can run, the best first. For tests.
std::vector<FourKernels> every_four_kernels();

} // namespace toposeat
