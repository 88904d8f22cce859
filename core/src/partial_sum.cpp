// SPDX-License-Identifier: MIT OR Apache-2.0
#include "partial_sum.hpp"

#include <algorithm>
#include <bit>

#include "toposeat/weighted_links.hpp"

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

SmallTable transposed(const SmallTable &table) {
  SmallTable result{};
  for (std::size_t a = 0; a < small_width; ++a) {
    for (std::size_t b = 0; b < small_width; ++b)
      result[b][a] = table[a][b];
  }
  return result;
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
  sort_peers(ranks);
}

PartialSum::PartialSum(const SmallTable &byte_cost, const SmallTable &bytes,
                       const SmallTable &message_cost, const SmallTable &messages,
                       std::size_t ranks)
    : bytes_(bytes), ranks_(ranks), by_seats_(bytes_by_seats(bytes, ranks - last_ranks)),
      number_(sets, 0), among_(four_sets) {
  leaving_ = byte_cost;
  entering_ = transposed(byte_cost);
  for (std::size_t a = 0; a < small_width; ++a) {
    for (std::size_t b = 0; b < small_width; ++b)
      least_[a][b] = std::min(leaving_[a][b], entering_[a][b]);
  }
  if (message_cost != SmallTable{})
    messages_.push_back({messages, message_cost, transposed(message_cost),
                         bytes_by_seats(messages, ranks - last_ranks)});
  sort_peers(ranks);
}

void PartialSum::sort_peers(std::size_t ranks) {
  for (std::uint32_t p = 0; p < ranks; ++p) {
    const auto both = [&](std::uint32_t q) { return bytes_[p][q] + bytes_[q][p]; };
    for (std::uint32_t q = 0; q < ranks; ++q) {
      if (q != p && both(q) > 0)
        peers_[p].push_back(q);
    }
    std::sort(peers_[p].begin(), peers_[p].end(),
              [&](auto a, auto b) { return both(a) > both(b); });
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

void PartialSum::add_ahead(DeviceLine &line, std::uint32_t q, std::uint32_t others,
                           const SmallTable &paces) const {
  std::size_t k = 0;
  for (const std::uint32_t other : peers_[q]) {
    if ((others >> other & 1U) == 0 || other == q)
      continue;
    const double half = 0.5 * (bytes_[q][other] + bytes_[other][q]);
    for (std::size_t d = 0; d < small_width; ++d)
      line[d] += half * paces[k][d];
    ++k;
  }
}

/// To the cost of rank q that of what it exchanges with rank p.
void PartialSum::add_placed(std::size_t depth, std::uint32_t p, std::uint32_t device,
                            std::uint32_t q) {
  const double out = bytes_[p][q];
  const double in = bytes_[q][p];
  const DeviceLine &here = linear_[depth][q];
  const DeviceLine &leaving = leaving_[device];
  const DeviceLine &entering = entering_[device];
  const LonePaces &own = own_[device];
  DeviceLine &below = linear_[depth + 1][q];
  for (std::size_t d = 0; d < small_width; ++d)
    below[d] = here[d] + (out * leaving[d] + in * entering[d]) + OwnLinks::seconds(own, d, out, in);
  for (const Product &each : messages_) {
    for (std::size_t d = 0; d < small_width; ++d)
      below[d] += each.amount[p][q] * each.leaving[device][d] +
                  each.amount[q][p] * each.entering[device][d];
  }
}

double PartialSum::place(std::size_t depth, std::uint32_t p, std::uint32_t device,
                         std::span<const std::uint32_t> left, std::uint32_t open) {
  const SmallTable &here = linear_[depth];
  const SmallTable &below = linear_[depth + 1];
  placed_[depth + 1] = placed_[depth] + here[p][device];
  std::uint32_t others = 0;
  for (const std::uint32_t q : left)
    others |= 1U << q;
  const SmallTable &paces = rising(open);
  double by_rank = 0;
  DeviceLine least_by_device;
  least_by_device.fill(unlimited);
  for (const std::uint32_t q : left) {
    add_placed(depth, p, device, q);
    DeviceLine whole = below[q];
    add_ahead(whole, q, others, paces);
    double least = unlimited;
    for_each_device(open, [&](std::size_t d) { least = std::min(least, whole[d]); });
    by_rank += least;
    for (std::size_t d = 0; d < small_width; ++d)
      least_by_device[d] = std::min(least_by_device[d], whole[d]);
  }
  double by_device = 0;
  if (static_cast<std::size_t>(std::popcount(open)) == left.size())
    for_each_device(open, [&](std::size_t d) { by_device += least_by_device[d]; });
  return placed_[depth + 1] + std::max(by_rank, by_device);
}

const Ways &PartialSum::among(const FourDevices &devices) {
  const std::size_t number = number_of(devices);
  Ways &among = among_[number];
  if (known_.test(number))
    return among;
  known_.set(number);
  kernels_.add_costs(leaving_, by_seats_, devices, among);
  kernels_.add_own(own_, by_seats_, devices, among);
  for (const Product &each : messages_)
    kernels_.add_costs(each.leaving, each.by_seats, devices, among);
  return among;
}

Ways PartialSum::of_ways(std::size_t depth, std::uint32_t p, std::uint32_t device,
                         const FourDevices &devices) {
  const std::size_t first = ranks_ - last_ranks;
  for (std::size_t k = 0; k < last_ranks; ++k)
    add_placed(depth, p, device, static_cast<std::uint32_t>(first + k));
  return kernels_.one_sum(placed_[depth] + linear_[depth][p][device], linear_[depth + 1], first,
                          devices, among(devices));
}

} // namespace toposeat
