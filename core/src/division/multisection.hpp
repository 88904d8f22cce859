// A slot for every rank by dividing ranks and machine together, level by level.
//
// Multisection along the machine's hierarchy: von Kirchbach, Schulz, Traeff, Better process mapping
// and sparse quadratic assignment, ACM J. Experimental Algorithmics 25, 2020; here with exact
// sizes.
//
// Applies to every SlotTree. It proves nothing.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "division/rank_graph.hpp"
#include "toposeat/base/deadline.hpp"
#include "toposeat/machines/slot_tree.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

enum class Effort : std::uint8_t { quick, thorough };

/// A slot for every vertex of `graph`, no slot twice. From the root down, the children of a part
/// are bisected recursively, and the ranks with them so that each side holds its own.
/// Where the ranks fit into the first half alone, they go there.
///
/// `Effort::quick` leaves out repartitioning and annealing, which cost more than
/// all else.
/// At the deadline the ranks not seated yet take the slots of their part as they come. `progress`
/// is told the share of ranks that are seated. `start` is empty or a placement: where its division
/// of a part is better than the bisections', improving goes on from it.
///
/// Throws std::invalid_argument if there are more vertices than slots.
Assignment multisection(const RankGraph &graph, const SlotTree &tree, std::uint64_t seed,
                        Effort effort, const Deadline &deadline,
                        const std::function<void(double)> &progress = {},
                        const Assignment &start = {});

} // namespace toposeat
