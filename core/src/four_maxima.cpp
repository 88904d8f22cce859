// SPDX-License-Identifier: MIT OR Apache-2.0
#include "four_maxima.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "own_links.hpp"

namespace toposeat {

FourMaxima::FourMaxima(const LoadTerms &terms, const SmallTable &bytes, std::size_t ranks,
                       std::uint32_t forbidden_ways)
    : terms_(terms), bytes_(bytes), first_(ranks - last_ranks), forbidden_ways_(forbidden_ways),
      order_(terms.shared().terms()), among_(four_sets) {
  std::iota(order_.begin(), order_.end(), 0U);
}

const FourMaxima::Among &FourMaxima::among(const FourDevices &devices) {
  Among &among = among_[number_of(devices)];
  if (among.known)
    return among;
  among.known = true;
  among.shared = among_four(terms_.shared(), bytes_, first_, devices);
  for (std::size_t way = 0; way < last_ways; ++way) {
    double most = (forbidden_ways_ >> way & 1U) != 0 ? unlimited : 0;
    for (std::size_t k = 1; k < last_ranks; ++k) {
      const LonePaces &paces = terms_.lone(devices[last_seat(way, k)]);
      for (std::size_t l = 0; l < k; ++l)
        most = std::max(most, OwnLinks::seconds(paces, devices[last_seat(way, l)],
                                                bytes_[first_ + k][first_ + l],
                                                bytes_[first_ + l][first_ + k]));
    }
    among.lone[way] = most;
  }
  return among;
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
  const Among &four = among(here.devices);
  const std::size_t latest = first_ - 1;
  FourLoads loads;
  loads.terms = order_.size();
  loads.placed = here.placed;
  loads.latest_row = here.rows + latest * loads.terms;
  loads.device = here.device;
  loads.leaving = terms_.shared().leaving(here.device);
  loads.entering = terms_.shared().entering(here.device);
  for (std::size_t k = 0; k < last_ranks; ++k) {
    loads.rows[k] = here.rows + (first_ + k) * loads.terms;
    loads.sent[k] = bytes_[first_ + k][latest];
    loads.received[k] = bytes_[latest][first_ + k];
  }
  loads.among = four.shared.data();
  loads.devices = here.devices;
  for (std::size_t way = 0; way < last_ways; ++way)
    most[way] = std::max(most[way], four.lone[way]);
  const std::size_t tried =
      kernels_.raise_to_largest(loads, order_.data(), expected(here), limit, most);
  if (tried > loads.terms)
    return true;
  try_first(tried);
  return false;
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
