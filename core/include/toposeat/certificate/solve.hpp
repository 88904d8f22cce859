// One entry for machines of devices: a request in, a placement with its certificate out.
//
//   problem   request, seats of the machine (problem/reduced_machine.hpp)
//   bounds    what no placement is below (bounds/, and trees of exact/ relaxed)
//   solvers   the first of exact/ that applies, with a placement of search/ to begin with
//   guard     never slower than the default placement by the flow model (flow/flow.hpp)
//   answer    the placement, its value, the bound, and whether they are equal: then it is proved
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include "toposeat/problem/map_request.hpp"

namespace toposeat {

/// Chooses a placement. Unless the caller fixed one, it is never predicted (by flow time) to be
/// slower than the default, and it is the default if that is as good.
///
/// Throws std::invalid_argument if the ranks do not fit on the devices, or the request contradicts
/// itself (a device twice, a pin to a device that is not allowed, more pins to a device than it has
/// slots, ranks that may only use too few devices).
[[nodiscard]] MapAnswer solve(const MapRequest &request);

} // namespace toposeat
