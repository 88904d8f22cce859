// Checks on device_of_rank before anything indexes with it.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "toposeat/network.hpp"

namespace toposeat {

/// Throws std::invalid_argument unless `device_of_rank` names one device of `network` for each of
/// `ranks` ranks. Several ranks may share a device.
void check_assignment(const Network &network, std::uint32_t ranks,
                      std::span<const std::uint32_t> device_of_rank);

} // namespace toposeat
