// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/machines/flow_use.hpp"

#include <stdexcept>
#include <type_traits>

namespace toposeat {
namespace {

constexpr std::uint32_t level_bits = 32;

template <class Machine>
FlowUse use_on(const RankTraffic &traffic, const Machine &machine, const Assignment &slots,
               const std::vector<std::uint32_t> &level_of_link, std::uint32_t asked) {
  if (level_of_link.size() != machine.links())
    throw std::invalid_argument("not one level per link of the machine");
  FlowUse use;
  use.levels.reserve(traffic.flows.size());
  use.over.reserve(traffic.flows.size());
  use.distance.reserve(traffic.flows.size());
  for (const Flow &flow : traffic.flows) {
    const std::uint32_t from = slots[flow.source];
    const std::uint32_t to = slots[flow.target];
    std::uint32_t levels = 0;
    bool over = false;
    if (from != to)
      machine.route(from, to, [&](std::uint32_t link) {
        const std::uint32_t level = level_of_link[link];
        levels |= level < level_bits ? std::uint32_t{1} << level : 0U;
        over = over || link == asked;
      });
    use.levels.push_back(levels);
    use.over.push_back(over);
    use.distance.push_back(machine.distance(from, to));
  }
  return use;
}

} // namespace

FlowUse flow_use(const RankTraffic &traffic, const LargeMachine &machine, const Assignment &slots,
                 const std::vector<std::uint32_t> &level_of_link, std::uint32_t link) {
  return std::visit(
      [&]<class Machine>(const Machine &each) -> FlowUse {
        if constexpr (std::is_same_v<Machine, GroupedMachine>)
          throw std::invalid_argument("the machine has no links");
        else
          return use_on(traffic, each, slots, level_of_link, link);
      },
      machine);
}

} // namespace toposeat
