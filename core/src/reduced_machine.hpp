// A request restricted to the devices it may use, renumbered 0..n-1.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <vector>

#include "toposeat/solve.hpp"

namespace toposeat {

struct ReducedMachine {
  std::vector<std::uint32_t> devices; // original number of each device
  Network network;                    // all links, routes between these devices only
  Matrix cost;
  std::vector<std::uint32_t> pinned; // one entry per device, as in Qap

  /// Throws std::invalid_argument as `solve` does.
  explicit ReducedMachine(const MapRequest &request);

  [[nodiscard]] Assignment original(const Assignment &reduced, std::uint32_t ranks) const;
  [[nodiscard]] Assignment reduced(const Assignment &original) const;
};

} // namespace toposeat
