// What each flow of a large job uses: kinds of links, one link that is asked about, its distance.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "toposeat/machines/large_machine.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

/// One entry per flow, in the traffic's order; flows within a slot use nothing.
struct FlowUse {
  std::vector<std::uint32_t> levels; // bit l: some link of its route is at level l
  std::vector<bool> over;            // whether its route uses the link that was asked about
  std::vector<double> distance;
};

/// `level_of_link[k]` below 32 is that of link k; 32 or more: counted nowhere.
///
/// Throws std::invalid_argument if there is not one level per link; a GroupedMachine has no links.
FlowUse flow_use(const RankTraffic &traffic, const LargeMachine &machine, const Assignment &slots,
                 const std::vector<std::uint32_t> &level_of_link, std::uint32_t link);

} // namespace toposeat
