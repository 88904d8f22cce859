// Machines written link by link.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "toposeat/problem/network.hpp"
#include "toposeat/problem/routes.hpp"

namespace toposeat {

/// Collects switches, links and routes. Routes between devices are the shortest ones over links that
/// join vertices (routes.hpp), but where they are stated.
class NetworkBuilder {
public:
  /// Vertices 0..devices-1 are the devices; no route passes through one.
  explicit NetworkBuilder(std::uint32_t devices) : devices_(devices) {
    graph_.forwards.assign(devices, false);
  }

  /// A vertex that routes may pass through; returns its number.
  std::uint32_t add_switch();

  /// A link between two vertices, and what it adds to the latency of a message; returns its number.
  std::uint32_t join(std::uint32_t a, std::uint32_t b, const LinkCapacity &capacity,
                     double latency_s = 0);

  /// A link that only stated routes use; returns its number.
  std::uint32_t link(double forward, double backward, double combined = unlimited);

  /// States the route of a pair of devices. One that is empty is limited by `cap` alone; that from a
  /// device to itself is a copy within it.
  NetworkBuilder &route(std::uint32_t from, std::uint32_t to, std::vector<LinkUse> uses,
                        double cap = unlimited, double latency_s = 0);

  /// Throws std::invalid_argument on two devices without a route, and as `Network::validate` and
  /// `shortest_routes` do.
  [[nodiscard]] Network build() const;

private:
  struct Route {
    std::vector<LinkUse> uses;
    double cap = unlimited;
    double latency_s = 0;
  };
  [[nodiscard]] Route along(const LinkPath &path, std::uint32_t from) const;

  std::uint32_t devices_;
  std::vector<LinkCapacity> links_;
  RouteGraph graph_;
  std::vector<std::uint32_t> number_; // of each link of the graph
  std::map<std::pair<std::uint32_t, std::uint32_t>, Route> stated_;
};

} // namespace toposeat
