// Exact congestion and exact flow time on any machine: branch and bound over partial link loads.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "toposeat/base/deadline.hpp"
#include "toposeat/loads/floors.hpp"
#include "toposeat/problem/bounded_answer.hpp"
#include "toposeat/problem/network.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// What every search over link loads works on. Everything must outlive the search.
struct LoadProblem {
  const Network &network;
  const RankTraffic &traffic;
  const std::vector<std::uint32_t> &pinned; // as in Qap, one entry per device
  const Floors &floors;
  const DeviceSets &allowed = unrestricted;

  static const DeviceSets unrestricted;

  [[nodiscard]] bool may_use(std::size_t rank, std::size_t device) const {
    return (pinned[rank] == Qap::no_pin || pinned[rank] == device) &&
           allowed.contains(rank, device);
  }
};

/// Talking ranks, and all that are restricted, pinned ones first, then always the one with most
/// traffic to those before it: the order in which ranks are placed.
std::vector<std::uint32_t> branching_order(const LoadProblem &problem);

/// Whether the branching honours `LoadProblem::allowed`; bounds that ignore it hold all the same.
inline constexpr bool load_branching_handles_allowed = true;

/// Improves `incumbent` (one device per rank) to the least maximum congestion and, among those, the
/// least sum over links. `lower_bound` and `proved` speak of the maximum alone.
///
/// Ranks are placed one by one; the loads of what is placed bound everything below, and so do
/// weighted means over links (`PartialMean`). Devices that a
/// symmetry of the network exchanges are tried once. Once the maximum is known to be optimal, only
/// a fixed number of further nodes is spent on the sum.
BoundedAnswer branch_on_congestion(const LoadProblem &problem, const Assignment &incumbent,
                                   double known_bound, const Deadline &deadline);

/// The same for the flow time; leaves are timed by the flow model.
BoundedAnswer branch_on_time(const LoadProblem &problem, const Assignment &incumbent,
                             double known_bound, const Deadline &deadline);

} // namespace toposeat
