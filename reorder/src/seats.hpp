// Roles of one node for its processes, by the links between their devices.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "mapping.h"
#include "toposeat/problem/network.hpp"

namespace toposeat::reorder {

/// Seats node after node; nodes whose question is the same are answered once.
class Seats {
public:
  /// `nodes`: how many will be asked for, which share the search.
  Seats(const tpr_places &places, std::size_t nodes);

  /// For each of a node's processes (numbers in rising order) the position of its role, when flows
  /// are between positions of its roles: rising, or another order of which the links cost at least
  /// 1 % less and the dearest link no more. Adds to both sums of `links`.
  std::vector<std::uint32_t> assign(const std::vector<std::uint32_t> &processes,
                                    const std::vector<Flow> &flows, tpr_links &links);

private:
  struct Found {
    std::vector<std::uint32_t> position;
    double rising, cost;
  };
  [[nodiscard]] Found search(const std::vector<int> &devices, const std::vector<Flow> &flows) const;

  const tpr_places &places_;
  std::uint64_t moves_; // for each process of a node
  std::map<std::pair<std::vector<int>, std::vector<std::pair<std::uint64_t, double>>>, Found>
      known_; // by devices and flows
};

} // namespace toposeat::reorder
