// SPDX-License-Identifier: MIT OR Apache-2.0
#include "few/four_maxima.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "few/own_links.hpp"

namespace toposeat {
namespace {

constexpr std::size_t tried_first = 2 * terms_at_once;

} // namespace

FourMaxima::FourMaxima(const LoadTerms &terms, const SmallTable &bytes, std::size_t ranks,
                       std::uint32_t forbidden_ways)
    : terms_(terms), bytes_(bytes), first_(ranks - last_ranks),
      by_seats_(bytes_by_seats(bytes, first_)), forbidden_ways_(forbidden_ways),
      order_(terms.shared().terms()), among_(four_sets) {
  std::iota(order_.begin(), order_.end(), 0U);
}

FourMaxima::Among &FourMaxima::among(const FourDevices &devices) {
  Among &among = among_[number_of(devices)];
  if (among.known)
    return among;
  among.known = true;
  among.shared.resize(order_.size());
  among.filled.resize(order_.size(), 0);
  kernels_.raise_to_own(terms_.lone(), by_seats_, devices, among.lone);
  for (std::size_t way = 0; way < last_ways; ++way) {
    if ((forbidden_ways_ >> way & 1U) != 0)
      among.lone[way] = unlimited;
  }
  return among;
}

/// The terms at these places of the order, where they are not known yet.
void FourMaxima::fill(std::size_t first, std::size_t end, const FourDevices &devices,
                      Among &among) const {
  for (std::size_t i = first; i < end; ++i) {
    const std::size_t term = order_[i];
    if (among.filled[term] != 0)
      continue;
    among.filled[term] = 1;
    kernels_.fill_among(terms_.shared(), term, by_seats_, devices, among.shared[term]);
  }
}

/// Without the shared terms of the latest rank with the four.
FourByFour FourMaxima::expected(const BeforeFour &here) const {
  const std::size_t latest = first_ - 1;
  const double reached = here.expected[latest].most[here.device];
  const LonePaces &paces = terms_.lone(here.device);
  FourByFour expected;
  for (std::size_t k = 0; k < last_ranks; ++k) {
    const DeviceLine &before = here.expected[first_ + k].most;
    const double sent = bytes_[latest][first_ + k];
    const double received = bytes_[first_ + k][latest];
    for (std::size_t j = 0; j < last_ranks; ++j) {
      const std::uint32_t device = here.devices[j];
      const bool permitted = (here.permitted[k] >> device & 1U) != 0;
      const double lone = OwnLinks::seconds(paces, device, sent, received);
      expected[k][j] = permitted ? std::max({reached, before[device], lone}) : unlimited;
    }
  }
  return expected;
}

bool FourMaxima::any_below(double limit, const BeforeFour &here, Ways &most) {
  Among &four = among(here.devices);
  const std::size_t latest = first_ - 1;
  FourLoads loads;
  const std::size_t terms = order_.size();
  loads.placed = here.placed;
  loads.latest_row = here.rows + latest * terms;
  loads.device = here.device;
  loads.leaving = terms_.shared().leaving(here.device);
  loads.entering = terms_.shared().entering(here.device);
  for (std::size_t k = 0; k < last_ranks; ++k) {
    loads.rows[k] = here.rows + (first_ + k) * terms;
    loads.sent[k] = bytes_[first_ + k][latest];
    loads.received[k] = bytes_[latest][first_ + k];
  }
  loads.among = four.shared.data();
  loads.devices = here.devices;
  for (std::size_t way = 0; way < last_ways; ++way)
    most[way] = std::max(most[way], four.lone[way]);
  const FourByFour expects = expected(here);
  // Most is ruled out by the first few: what the four add to others need not be known.
  std::size_t done = 0;
  for (const std::size_t end : {std::min(tried_first, terms), terms}) {
    loads.terms = end - done;
    fill(done, end, here.devices, four);
    const std::size_t tried =
        kernels_.raise_to_largest(loads, order_.data() + done, expects, limit, most);
    if (tried <= loads.terms) {
      try_first(done + tried);
      return false;
    }
    done = end;
  }
  return true;
}

/// The terms just before the given place of the order ruled everything out: they move half way to
/// the front.
void FourMaxima::try_first(std::size_t term) {
  const std::size_t block = term / terms_at_once;
  if (block < 2 || term % terms_at_once != 0)
    return;
  const auto here = order_.begin() + static_cast<std::ptrdiff_t>((block - 1) * terms_at_once);
  const auto there = order_.begin() + static_cast<std::ptrdiff_t>((block - 1) / 2 * terms_at_once);
  std::swap_ranges(here, here + terms_at_once, there);
}

} // namespace toposeat
