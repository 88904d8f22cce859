// The placements of a large job that follow from orders alone.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "toposeat/large_machine.hpp"
#include "toposeat/process_grid.hpp"
#include "toposeat/rank_graph.hpp"

namespace toposeat {

using NamedPlacement = std::pair<std::string, Assignment>;

/// Orders of the machine's own slots for ranks as they come: on a torus every order of its
/// dimensions (the Cartesian ones), there and back.
std::vector<NamedPlacement> machine_orders(const LargeMachine &machine, std::uint32_t ranks);

/// Curves, blocks and recursive coordinate bisection of a recognised process grid.
std::vector<NamedPlacement> grid_placements(const ProcessGrid &grid, const LargeMachine &machine,
                                            const SlotTree &tree, std::uint32_t ranks);

/// Recursive bisection of coordinates that were made up from the graph.
NamedPlacement embedded_placement(const RankGraph &graph, const SlotTree &tree);

} // namespace toposeat
