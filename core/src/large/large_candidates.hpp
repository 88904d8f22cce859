// The placements of a large job that follow from orders alone.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "large/process_grid.hpp"
#include "toposeat/machines/large_machine.hpp"

namespace toposeat {

/// Takes one placement as soon as it is made; false: no more of them.
using TakePlacement = std::function<bool(const std::string &name, Assignment placement)>;

/// Orders of the machine's own slots for ranks as they come: on a torus every order of its
/// dimensions (the Cartesian ones), there and back. False if `take` stopped it.
bool machine_orders(const LargeMachine &machine, std::uint32_t ranks, const TakePlacement &take);

/// Curves, blocks and recursive coordinate bisection of a recognised process grid on the slots of a
/// tree. False if `take` stopped it.
bool grid_placements(const ProcessGrid &grid, const LargeMachine &machine, const SlotTree &tree,
                     std::uint32_t ranks, const TakePlacement &take);

} // namespace toposeat
