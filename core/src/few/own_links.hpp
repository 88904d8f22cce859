// Links that lie between two devices alone, and what is left of a small machine without them.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <array>

#include "few/load_terms.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

/// A link that is all of the routes between two devices, one way each, and of no others, depends on
/// what these two exchange and on nothing else.
struct OwnLinks {
  /// At most `max_small_loads` devices.
  explicit OwnLinks(const Network &network);

  /// Seconds of the link between two devices if what is there is sent from one and to the other.
  [[nodiscard]] static double seconds(const LonePaces &paces, std::size_t peer, double sent,
                                      double received) {
    const double one = std::max(sent * paces.leaving[peer], received * paces.entering[peer]);
    return std::max(one, (sent + received) * paces.both[peer]);
  }

  std::array<LonePaces, small_width> paces{}; // by device; zero where two have no own link
  Network others;                             // the same machine, the routes over own links empty
};

} // namespace toposeat
