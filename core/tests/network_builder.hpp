// Small machines for tests, written link by link and route by route.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "toposeat/problem/network.hpp"

namespace toposeat::testing {

/// Collects links and routes; a pair without a route has an empty one, which limits nothing.
class NetworkBuilder {
public:
  explicit NetworkBuilder(std::uint32_t devices) { network_.devices = devices; }

  std::uint32_t link(double forward, double backward, double combined = unlimited) {
    network_.links.push_back({forward, backward, combined});
    return static_cast<std::uint32_t>(network_.links.size() - 1);
  }

  NetworkBuilder &route(std::uint32_t from, std::uint32_t to, std::vector<LinkUse> uses,
                        double cap = unlimited, double latency = 0) {
    routes_[{from, to}] = {std::move(uses), cap, latency};
    return *this;
  }

  Network build() {
    network_.route_begin.push_back(0);
    for (std::uint32_t i = 0; i < network_.devices; ++i) {
      for (std::uint32_t j = 0; j < network_.devices; ++j) {
        const Route &route = routes_[{i, j}];
        network_.route_uses.insert(network_.route_uses.end(), route.uses.begin(), route.uses.end());
        network_.route_begin.push_back(static_cast<std::uint32_t>(network_.route_uses.size()));
        network_.cap.push_back(route.cap);
        network_.latency.push_back(route.latency);
      }
    }
    network_.validate();
    return network_;
  }

private:
  struct Route {
    std::vector<LinkUse> uses;
    double cap = unlimited;
    double latency = 0;
  };
  Network network_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Route> routes_;
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
