// A request restricted to the devices it may use, every slot of a device a seat of its own.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <vector>

#include "toposeat/problem/map_request.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// Seats are numbered 0..n-1 in default order and are the "devices" of everything below: seats of
/// one device have an empty route, and the cap, latency and cost of a copy within the device.
struct ReducedMachine {
  std::vector<std::uint32_t> device_of_seat; // original number
  Network network;                           // all links, routes between these seats only
  Matrix cost;
  Matrix message_cost;               // empty unless the request has one
  std::vector<std::uint32_t> pinned; // one entry per seat, as in Qap
  DeviceSets allowed;                // as in Qap; empty if no rank is restricted
  Assignment home;                   // the default placement, one seat per rank

  /// Throws std::invalid_argument as `solve` does.
  explicit ReducedMachine(const MapRequest &request);

  /// Devices of the first `ranks` ranks.
  [[nodiscard]] Assignment original(const Assignment &seats, std::uint32_t ranks) const;
};

} // namespace toposeat
