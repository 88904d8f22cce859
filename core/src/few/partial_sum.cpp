// SPDX-License-Identifier: MIT OR Apache-2.0
#include "few/partial_sum.hpp"

#include <algorithm>
#include <bit>
#include <functional>

#include "toposeat/loads/weighted_links.hpp"

namespace toposeat {
namespace {

constexpr std::size_t sets = std::size_t{1} << small_width;

template <class Visit> void for_each_device(std::uint32_t set, Visit visit) {
  for (; set != 0; set &= set - 1)
    visit(static_cast<std::size_t>(std::countr_zero(set)));
}

/// Of what any two ranks exchange, the least share that goes the busier way.
double least_share(const SmallTable &bytes) {
  double share = 1;
  for (std::size_t p = 0; p < small_width; ++p) {
    for (std::size_t q = 0; q < p; ++q) {
      const double both = bytes[p][q] + bytes[q][p];
      if (both > 0)
        share = std::min(share, std::max(bytes[p][q], bytes[q][p]) / both);
    }
  }
  return share;
}

} // namespace

PartialSum::PartialSum(const OwnLinks &own, const SmallTable &bytes, std::size_t ranks)
    : bytes_(bytes), ranks_(ranks), by_seats_(bytes_by_seats(bytes, ranks - last_ranks)),
      own_(own.paces), number_(sets, 0), among_(four_sets) {
  const double share = least_share(bytes_);
  const LinkMean pace = least_total(own.others);
  for (std::size_t a = 0; a < own.others.devices; ++a) {
    for (std::size_t b = 0; b < own.others.devices; ++b) {
      leaving_[a][b] = pace(a, b);
      entering_[a][b] = pace(b, a);
      const double quicker = std::min(own_[a].leaving[b], own_[a].entering[b]);
      least_[a][b] = std::max(share * quicker, own_[a].both[b]) + std::min(pace(a, b), pace(b, a));
    }
  }
  list_halves();
}

/// By place of the rank that is placed: what each later one exchanges with the others after it.
void PartialSum::list_halves() {
  for (std::size_t place = 0; place + last_ranks < ranks_; ++place) {
    for (std::size_t q = place + 1; q < ranks_; ++q) {
      DeviceLine &halves = halves_[place][q];
      std::uint8_t &count = peers_[place][q];
      for (std::size_t peer = place + 1; peer < ranks_; ++peer) {
        const double half = 0.5 * (bytes_[q][peer] + bytes_[peer][q]);
        if (peer != q && half > 0)
          halves[count++] = half;
      }
      std::sort(halves.begin(), halves.begin() + count, std::greater<>());
    }
  }
}

const SmallTable &PartialSum::rising(std::uint32_t open) {
  if (number_[open] != 0)
    return rising_[number_[open] - std::size_t{1}];
  SmallTable &table = rising_.emplace_back();
  number_[open] = static_cast<std::uint16_t>(rising_.size());
  for_each_device(open, [&](std::size_t d) {
    std::size_t count = 0;
    for_each_device(open, [&](std::size_t other) {
      if (other == d)
        return;
      std::size_t at = count++; // few enough to insert in order
      for (; at > 0 && least_[d][other] < table[at - 1][d]; --at)
        table[at][d] = table[at - 1][d];
      table[at][d] = least_[d][other];
    });
  });
  return table;
}

/// To the costs of the ranks from `first` on that of what they exchange with the rank at a place.
void PartialSum::add_placed(const Costs &here, std::size_t place, std::uint32_t device,
                            std::size_t first, Costs &below) const {
  below.placed = here.placed + here.linear[place][device];
  const PlacedRank rank{&bytes_,      place, ranks_, &leaving_[device], &entering_[device],
                        &own_[device]};
  loops_.add_placed(rank, first, here.linear, below.linear);
}

double PartialSum::bound(std::size_t place, std::uint32_t device, std::uint32_t open) {
  Costs &below = below_[place][device];
  add_placed(before(place), place, device, place + 1, below);
  const RanksAhead ahead{&halves_[place], peers_[place].data(), &rising(open), open};
  return below.placed + loops_.least_ahead(below.linear, place + 1, ranks_, ahead);
}

const Ways &PartialSum::among(const FourDevices &devices) {
  const std::size_t number = number_of(devices);
  Ways &among = among_[number];
  if (known_.test(number))
    return among;
  known_.set(number);
  kernels_.add_costs(leaving_, by_seats_, devices, among);
  kernels_.add_own(own_, by_seats_, devices, among);
  return among;
}

Ways PartialSum::of_ways(std::uint32_t device, const FourDevices &devices) {
  const std::size_t first = ranks_ - last_ranks;
  Costs &below = below_[first - 1][device];
  add_placed(before(first - 1), first - 1, device, first, below);
  return kernels_.one_sum(below.placed, below.linear, first, devices, among(devices));
}

} // namespace toposeat
