// Checks on device_of_rank before anything indexes with it, and on what a search may answer.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "toposeat/problem/network.hpp"

namespace toposeat {

/// Throws std::invalid_argument unless `device_of_rank` names one device of `network` for each of
/// `ranks` ranks. Several ranks may share a device.
void check_assignment(const Network &network, std::uint32_t ranks,
                      std::span<const std::uint32_t> device_of_rank);

/// Whether a placement may be the answer of a search; asked only of those better than all that were
/// accepted before.
using Acceptable = std::function<bool(const Assignment &)>;

} // namespace toposeat
