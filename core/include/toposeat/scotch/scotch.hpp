// Scotch as a mapper, if its shared library is present at run time.
//
// Pellegrini, Static mapping by dual recursive bipartitioning of process and architecture graphs,
// SHPCC 1994. Ranks that share a device are moved to free ones.
//
// Applies to one term without allowed devices. It proves nothing.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "toposeat/problem/network.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

inline constexpr SolverScope scotch_scope{.second_term = false, .allowed = false};

struct ScotchAnswer {
  Assignment placement;          // one-to-one, keeps the pins
  std::vector<std::int64_t> raw; // device per rank (idle ones included) as Scotch gave it
  std::uint32_t moved = 0;       // ranks that the repair had to move; 0: the raw answer was used
};

/// The library was found and has the functions needed.
bool scotch_available();

/// Maps the traffic (both directions added up) onto a complete graph whose edges weigh the mean
/// cost of their pair, on one thread, with Scotch's default strategy. Scotch balances but does not
/// promise one rank per device: surplus ranks then go to the free device that costs least.
///
/// Throws std::runtime_error if the library is missing or refuses.
ScotchAnswer scotch_map(const Qap &qap, std::uint64_t seed);

} // namespace toposeat
