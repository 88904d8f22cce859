// SPDX-License-Identifier: MIT OR Apache-2.0
#include "few/link_sums.hpp"

namespace toposeat {

LinkSums::LinkSums(const OwnLinks &own, const SmallTable &bytes, std::size_t ranks)
    : own_(own), bytes_(bytes), ranks_(ranks), by_seats_(bytes_by_seats(bytes, ranks - last_ranks)),
      among_(four_sets) {
  list_links(own.others);
  const std::size_t depths = ranks_ - last_ranks;
  lines_.assign(depths * table_.terms(), 0.0);
  rows_.assign(depths * small_width * table_.terms(), DeviceLine{});
}

void LinkSums::list_links(const Network &others) {
  constexpr std::size_t unused = ~std::size_t{0};
  std::vector<std::size_t> number(others.links.size(), unused);
  for (const LinkUse &use : others.route_uses) {
    if (number[use.link] != unused)
      continue;
    number[use.link] = paces_.size();
    const LinkCapacity &link = others.links[use.link];
    paces_.push_back({1 / link.forward, 1 / link.backward, 1 / link.combined});
  }
  table_ = TermTable(2 * paces_.size());
  for (std::uint32_t a = 0; a < others.devices; ++a) {
    for (std::uint32_t b = 0; b < others.devices; ++b) {
      for (const LinkUse &use : others.route(a, b))
        table_.add(2 * number[use.link] + (use.reverse ? 1 : 0), a, b, 1);
    }
  }
}

/// What the ranks after that at `depth` add, and what is placed, with that one too.
void LinkSums::settle(std::size_t depth) {
  const std::uint32_t device = device_[depth];
  const std::size_t terms = table_.terms();
  const DeviceLine *leaving = table_.leaving(device);
  const DeviceLine *entering = table_.entering(device);
  const double *before = lines_.data() + depth * terms;
  double *now = lines_.data() + (depth + 1) * terms;
  const DeviceLine *placed = row(depth, depth);
  for (std::size_t t = 0; t < terms; ++t)
    now[t] = before[t] + placed[t][device];
  for (std::size_t q = depth + 1; q < ranks_; ++q) {
    const double received = bytes_[depth][q];
    const double sent = bytes_[q][depth];
    loops_.add_terms(row(depth, q), leaving, entering, received, sent, terms, row(depth + 1, q));
  }
}

void LinkSums::settle_own(std::size_t depth) {
  const std::uint32_t device = device_[depth];
  const SmallTable &before = own_rows_[depth];
  static constexpr DeviceLine free{}; // all other links are in the rows of terms
  own_lines_[depth + 1] = own_lines_[depth] + before[depth][device];
  const PlacedRank rank{&bytes_, depth, ranks_, &free, &free, &own_.paces[device]};
  loops_.add_placed(rank, depth + 1, before, own_rows_[depth + 1]);
}

const LinkSums::Among &LinkSums::among(const FourDevices &devices) {
  Among &among = among_[number_of(devices)];
  if (among.known)
    return among;
  among.known = true;
  among.bytes.resize(table_.terms());
  for (std::size_t term = 0; term < table_.terms(); ++term)
    kernels_.fill_among(table_, term, by_seats_, devices, among.bytes[term]);
  kernels_.add_own(own_.paces, by_seats_, devices, among.own_seconds);
  return among;
}

void LinkSums::of_ways(const FourDevices &devices, Ways &total) {
  const std::size_t first = ranks_ - last_ranks;
  const std::size_t latest = first - 1;
  for (; known_ < latest; ++known_) {
    settle(known_);
    settle_own(known_);
  }
  settle_own(latest);
  const Among &four = among(devices);
  FourLoads loads;
  loads.terms = table_.terms();
  loads.placed = lines_.data() + latest * loads.terms;
  loads.latest_row = row(latest, latest);
  loads.device = device_[latest];
  loads.leaving = table_.leaving(loads.device);
  loads.entering = table_.entering(loads.device);
  for (std::size_t k = 0; k < last_ranks; ++k) {
    loads.rows[k] = row(latest, first + k);
    loads.sent[k] = bytes_[first + k][latest];
    loads.received[k] = bytes_[latest][first + k];
  }
  loads.among = four.bytes.data();
  loads.devices = devices;
  total = kernels_.one_sum(own_lines_[first], own_rows_[first], first, devices, four.own_seconds);
  kernels_.add_link_seconds(loads, paces_.data(), total);
}

} // namespace toposeat
