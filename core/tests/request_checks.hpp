// What an answer to a mapping request is worth, and whether it keeps to the request.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "toposeat/certificate/solve.hpp"
#include "toposeat/flow/flow.hpp"
#include "toposeat/problem/congestion.hpp"

namespace toposeat::testing {

/// Of a placement, by the objective asked for.
inline double value_of(const MapRequest &request, const Assignment &placement) {
  if (request.objective == Objective::time)
    return flow_time(*request.network, *request.traffic, placement);
  if (request.objective == Objective::congestion)
    return congestion(*request.network, *request.traffic, placement).max_s;
  double total = 0;
  for (const Flow &flow : request.traffic->flows) {
    const std::uint32_t a = placement[flow.source];
    const std::uint32_t b = placement[flow.target];
    total += flow.bytes * request.cost(a, b);
    if (request.message_cost.n != 0)
      total += flow.messages * request.message_cost(a, b);
  }
  return total;
}

/// What is wrong with the seats of a placement; null if nothing is.
inline const char *seating_fault(const MapRequest &request, const Assignment &placement) {
  std::vector<std::uint32_t> room(request.network->devices, request.devices.empty() ? 1 : 0);
  for (const std::uint32_t device : request.devices)
    room[device] = 1;
  for (std::size_t i = 0; i < request.slots.size(); ++i)
    room[request.devices.empty() ? i : request.devices[i]] = request.slots[i];
  if (placement.size() != request.traffic->ranks)
    return "a rank has no device";
  for (std::size_t r = 0; r < placement.size(); ++r) {
    const std::uint32_t device = placement[r];
    if (device >= room.size() || room[device]-- == 0)
      return "a device has too many ranks";
    if (!request.pinned.empty() && request.pinned[r] != no_pin && request.pinned[r] != device)
      return "a pin was not kept";
    if (request.allowed.empty() || request.allowed[r].empty())
      continue;
    const auto &allowed = request.allowed[r];
    if (std::find(allowed.begin(), allowed.end(), device) == allowed.end())
      return "a rank sits where it may not";
  }
  return nullptr;
}

} // namespace toposeat::testing
