// What every solver by link loads works on.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "toposeat/problem/network.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// Which ranks exchange what over which links, and where each rank may go. All parts must outlive
/// the object.
struct LoadProblem {
  const Network &network;
  const RankTraffic &traffic;
  const std::vector<std::uint32_t> &pinned; // as in Qap, one entry per device
  const DeviceSets &allowed = unrestricted;

  static const DeviceSets unrestricted;

  [[nodiscard]] bool may_use(std::size_t rank, std::size_t device) const {
    return (pinned[rank] == Qap::no_pin || pinned[rank] == device) &&
           allowed.contains(rank, device);
  }
};

inline const DeviceSets LoadProblem::unrestricted;

} // namespace toposeat
