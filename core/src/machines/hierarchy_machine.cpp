// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/machines/hierarchy_machine.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "machines/machine_checks.hpp"

namespace toposeat {

HierarchyMachine::HierarchyMachine(std::vector<std::uint32_t> arities,
                                   const std::vector<double> &costs, std::vector<double> bandwidths,
                                   std::vector<double> latencies)
    : arities_(std::move(arities)), costs_(costs), bandwidths_(std::move(bandwidths)),
      latencies_(std::move(latencies)) {
  const std::uint32_t slots = checked_slots(arities_);
  const std::size_t levels = arities_.size();
  if (levels == 0 || costs.size() != levels || bandwidths_.size() != levels ||
      latencies_.size() != levels)
    throw std::invalid_argument("a hierarchy needs one cost, bandwidth and latency per level");
  check_numbers(costs, 0, "a cost is");
  check_numbers(latencies_, 0, "a latency is");
  check_capacities(bandwidths_);
  if (!std::is_sorted(costs.begin(), costs.end()))
    throw std::invalid_argument("costs must not fall from a level to the one above");

  std::vector<unsigned> shift; // of each level's field
  unsigned bits = 0;
  for (std::size_t level = 0; level < levels; ++level) {
    shift.push_back(bits);
    const auto width = static_cast<unsigned>(std::bit_width(arities_[level] - 1));
    for (unsigned bit = 0; bit < width; ++bit)
      cost_of_width_[bits + bit + 1] = costs[level];
    bits += width;
    if (bits > 32)
      throw std::invalid_argument("a hierarchy with too many levels");
  }
  code_.resize(slots);
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    std::uint32_t rest = slot;
    for (std::size_t level = 0; level < levels; ++level) {
      if (arities_[level] > 1) // a field of no bits may begin at bit 32
        code_[slot] |= (rest % arities_[level]) << shift[level];
      rest /= arities_[level];
    }
  }
  std::uint32_t units = slots;
  first_link_.push_back(0);
  for (std::size_t level = 0; level < levels; ++level) {
    first_link_.push_back(first_link_.back() + 2 * units);
    units /= arities_[level];
  }
}

double HierarchyMachine::latency(std::uint32_t a, std::uint32_t b) const {
  for (std::size_t level = 0; level < arities_.size(); ++level) {
    a /= arities_[level];
    b /= arities_[level];
    if (a == b)
      return latencies_[level];
  }
  return latencies_.back();
}

std::size_t HierarchyMachine::level_of_link(std::uint32_t link) const {
  const auto after = std::upper_bound(first_link_.begin(), first_link_.end(), link);
  return static_cast<std::size_t>(after - first_link_.begin()) - 1;
}

double HierarchyMachine::capacity(std::uint32_t link) const {
  return bandwidths_[level_of_link(link)];
}

std::string HierarchyMachine::link_name(std::uint32_t link) const {
  const std::size_t level = level_of_link(link);
  const std::uint32_t within = link - first_link_[level];
  return "level " + std::to_string(level) + " unit " + std::to_string(within / 2) +
         (within % 2 == 0 ? " up" : " down");
}

} // namespace toposeat
