// One entry for all mappers: objective and method in, placement and certificate out.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include "toposeat/problem/map_answer.hpp"
#include "toposeat/problem/map_request.hpp"

namespace toposeat {

/// Chooses a placement. Unless the caller fixed one, it is never predicted (by flow time) to be
/// slower than the default, and it is the default if that is as good.
///
/// Throws std::invalid_argument if the ranks do not fit on the devices, or the request contradicts
/// itself (a device twice, a pin to a device that is not allowed, more pins to a device than it has
/// slots, ranks that may only use too few devices), and std::runtime_error if Scotch was asked for
/// and is missing, fails, or cannot express the request.
MapAnswer solve(const MapRequest &request);

} // namespace toposeat
