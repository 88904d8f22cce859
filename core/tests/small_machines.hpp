// Small machines and traffics for tests.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "toposeat/problem/network_builder.hpp"

namespace toposeat::testing {

/// Nothing limits the pairs whose routes are not stated.
struct FreePairs : NetworkBuilder {
  explicit FreePairs(std::uint32_t devices) : NetworkBuilder(devices) {
    for (std::uint32_t pair = 0; pair < devices * devices; ++pair)
      route(pair / devices, pair % devices, {});
  }
};

inline RankTraffic traffic_of(std::uint32_t ranks, std::vector<Flow> flows) {
  RankTraffic traffic;
  traffic.ranks = ranks;
  traffic.flows = std::move(flows);
  traffic.validate();
  return traffic;
}

inline Assignment in_order(std::uint32_t ranks) {
  Assignment result;
  for (std::uint32_t i = 0; i < ranks; ++i)
    result.push_back(i);
  return result;
}

///   0 --.           .-- 2      ports: links 0..3 of 100 each way
///        s ======= t           uplink: link 4, from the side of 0 and 1
///   1 --'           '-- 3
///
/// Far pairs may have a cap of their own; all pairs have one latency.
struct TwoSwitches {
  std::uint32_t uplink = 4;
  Network network;

  explicit TwoSwitches(LinkCapacity up, double far_cap = unlimited, double latency = 0) {
    NetworkBuilder builder(4);
    for (int i = 0; i < 4; ++i)
      builder.link(100, 100);
    builder.link(up.forward, up.backward, up.combined);
    for (std::uint32_t i = 0; i < 4; ++i) {
      for (std::uint32_t j = 0; j < 4; ++j) {
        if (i == j)
          continue;
        const bool far = i / 2 != j / 2;
        std::vector<LinkUse> uses = {{i, false}, {j, true}};
        if (far)
          uses.insert(uses.begin() + 1, {uplink, i >= 2});
        builder.route(i, j, uses, far ? far_cap : unlimited, latency);
      }
    }
    network = builder.build();
  }
};

} // namespace toposeat::testing
