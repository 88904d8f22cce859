// Problems that no order of the ranks can make better or worse.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include "solve/reduced_machine.hpp"

namespace toposeat {

/// Every placement has the same value, for any traffic.
///
/// Of the cost: when all pairs of seats cost the same. Of congestion and flow time: when every
/// exchange of two seats is a symmetry of the network (a crossbar; a full mesh of equal links), so
/// that all permutations are. An answer false may be wrong on more than `largest_uniform` seats.
[[nodiscard]] bool every_placement_is_equal(const ReducedMachine &machine, Objective objective);

inline constexpr std::uint32_t largest_uniform = 128;

} // namespace toposeat
