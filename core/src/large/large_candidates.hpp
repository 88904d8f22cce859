// The placements of a large job that follow from orders alone.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "large/process_grid.hpp"
#include "toposeat/division/rank_graph.hpp"
#include "toposeat/machines/large_machine.hpp"

namespace toposeat {

/// Takes one placement as soon as it is made; false: no more of them.
using TakePlacement = std::function<bool(const std::string &name, Assignment placement)>;

/// Orders of the machine's own slots for ranks as they come: on a torus every order of its
/// dimensions (the Cartesian ones), there and back. False if `take` stopped it.
bool machine_orders(const LargeMachine &machine, std::uint32_t ranks, const TakePlacement &take);

/// A process grid behind the traffic, in whatever order its ranks are numbered: rank r lies at
/// `place[r]` of the row-major grid; empty where rank r lies at r.
struct SeenGrid {
  ProcessGrid grid;
  std::vector<std::uint32_t> place;
};

/// The grid that the ranks' order shows, or the one that the graph alone gives away.
std::optional<SeenGrid> see_grid(const RankGraph &graph, const Deadline &until);

/// Curves, blocks and recursive coordinate bisection of a recognised process grid. False if `take`
/// stopped it.
bool grid_placements(const SeenGrid &seen, const LargeMachine &machine, const SlotTree &tree,
                     std::uint32_t ranks, const TakePlacement &take);

} // namespace toposeat
