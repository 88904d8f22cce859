// SPDX-License-Identifier: MIT OR Apache-2.0
#include "flow/pair_constraints.hpp"

#include <algorithm>
#include <cmath>

#include "toposeat/flow/flow.hpp"

namespace toposeat {

PairConstraints::PairConstraints(const Network &network)
    : network_(network), pairs_(std::size_t{network.devices} * network.devices),
      number_of_(network.links.size() * 3 + network.pair_limits.size(), unknown) {}

void PairConstraints::look_up(std::uint32_t from, std::uint32_t to) {
  const std::size_t number = static_cast<std::size_t>(from) * network_.devices + to;
  Pair &pair = pairs_[number];
  pair.first = static_cast<std::uint32_t>(elements_.size());
  pair.narrowest_link = no_link;
  for (const LinkUse &use : network_.route(from, to)) {
    const LinkCapacity &link = network_.links[use.link];
    const std::size_t first = std::size_t{use.link} * 3;
    const double one_way = use.reverse ? link.backward : link.forward;
    if (one_way < link.combined) // else both together are never less full
      add(pair, use.reverse ? first + 1 : first, one_way, use.link);
    add(pair, first + 2, link.combined, use.link);
  }
  if (const std::int32_t limit = network_.limit(number); limit != none_of_pair) {
    const auto place = static_cast<std::size_t>(limit);
    add(pair, network_.links.size() * 3 + place, network_.pair_limits[place], no_link);
  }
  list_narrow(pair);
}

void PairConstraints::list_narrow(Pair &pair) {
  pair.first_narrow = static_cast<std::uint32_t>(elements_.size());
  for (std::uint32_t i = pair.first; i < pair.first_narrow; ++i) {
    if (constraints_[elements_[i]].capacity <= pair.narrowest)
      elements_.push_back(elements_[i]);
  }
  pair.narrow = static_cast<std::uint32_t>(elements_.size()) - pair.first_narrow;
}

void PairConstraints::add(Pair &pair, std::size_t id, double capacity, std::uint32_t link) {
  if (std::isinf(capacity))
    return;
  if (number_of_[id] == unknown) {
    number_of_[id] = static_cast<std::uint32_t>(constraints_.size());
    constraints_.push_back({capacity, link});
  }
  const auto before = elements(pair);
  pair.repeats =
      pair.repeats || std::find(before.begin(), before.end(), number_of_[id]) != before.end();
  elements_.push_back(number_of_[id]);
  ++pair.count;
  if (capacity < pair.narrowest) {
    pair.narrowest = capacity;
    pair.narrowest_link = link;
  }
}

} // namespace toposeat
