// The machines that jobs of thousands of ranks are mapped onto: distances computed, never stored
// pair by pair.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <variant>

#include "toposeat/machines/cluster_machine.hpp"
#include "toposeat/machines/dragonfly_machine.hpp"
#include "toposeat/machines/hierarchy_machine.hpp"
#include "toposeat/machines/nodes_machine.hpp"
#include "toposeat/machines/torus_machine.hpp"

namespace toposeat {

inline constexpr std::uint32_t most_slots = 1U << 22;

/// Each kind answers `slots()`, `distance(a, b)` (symmetric, 0 from a slot to itself) and `tree()`;
/// all but NodesMachine also know their links: `links()`, `capacity(link)`, `link_name(link)`,
/// `route(a, b, use)` and `latency(a, b)`. ClusterMachine also has `pace(a, b)`.
using LargeMachine =
    std::variant<HierarchyMachine, TorusMachine, DragonflyMachine, NodesMachine, ClusterMachine>;

[[nodiscard]] inline std::uint32_t slots_of(const LargeMachine &machine) {
  return std::visit([](const auto &each) { return each.slots(); }, machine);
}

[[nodiscard]] inline double distance_on(const LargeMachine &machine, std::uint32_t a,
                                        std::uint32_t b) {
  return std::visit([&](const auto &each) { return each.distance(a, b); }, machine);
}

[[nodiscard]] inline SlotTree tree_of(const LargeMachine &machine) {
  return std::visit([](const auto &each) { return each.tree(); }, machine);
}

} // namespace toposeat
