// Improving a large placement by exchanging the slots of two ranks under the true distances: local
// search over the neighbourhood of Brandfass, Alrutz, Gerhold, Rank reordering for MPI
// communication optimization, Computers and Fluids 80, 2013, restricted to parts of the machine
// that hold peers.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>

#include "division/rank_graph.hpp"
#include "toposeat/base/deadline.hpp"
#include "toposeat/machines/large_machine.hpp"

namespace toposeat {

/// Sum over edges of weight x distance of the two slots.
double large_cost(const RankGraph &graph, const LargeMachine &machine, const Assignment &slots);

/// Exchanges slots (or moves a rank to a free one) as long as that lowers the cost: for every
/// active rank, the parts of the tree that hold its neighbours are tried, best first; a change
/// wakes the ranks around it. Returns how many exchanges were made.
std::uint64_t refine_slots(const RankGraph &graph, const LargeMachine &machine,
                           const SlotTree &tree, Assignment &slots, const Deadline &deadline);

} // namespace toposeat
