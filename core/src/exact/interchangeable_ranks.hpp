// Ranks that a symmetry of the traffic exchanges: of placements that differ by it, one is searched.
//
// Puget, Breaking symmetries in all different problems, IJCAI 2005: if a symmetry fixes the ranks
// before r and sends r to s, only placements with p[r] < p[s] are looked at.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "problem/load_problem.hpp"

namespace toposeat {

/// For each place in an order of at most 32 ranks the set of later places whose ranks a symmetry of
/// the traffic (of bytes, messages and rounds) exchanges with it while it fixes all ranks before.
///
/// Of all placements that symmetries of the traffic and of the network make of each other, the one
/// with the least devices in this order (compared as words are) is the canonical representative: it
/// has every rank on a lesser device than the ranks of its set, and each on the least of the
/// devices that symmetries of the network which fix the devices before exchange. So a search of
/// only such placements misses nothing. From place `talking` on, ranks send and receive nothing and
/// are free; where ranks are restricted, only those have sets that are not empty.
std::vector<std::uint32_t> later_interchangeable(const LoadProblem &problem,
                                                 const std::vector<std::uint32_t> &order,
                                                 std::size_t talking);

} // namespace toposeat
