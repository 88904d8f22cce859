// Deterministic routing on a multigraph: which links a transfer between two vertices uses.
//
// Among all simple walks whose inner vertices forward, the route is the one with
//   1. the least latency (compared in whole picoseconds, so that rounding decides nothing),
//   2. the fewest links,
//   3. the highest bottleneck bandwidth,
//   4. the smallest link numbers, compared in order from the end with the smaller vertex number.
// Rule 4 makes the route from b to a the reverse of the route from a to b.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace toposeat {

/// An undirected link; parallel links are allowed. `bandwidth` is only compared, in any unit.
struct GraphLink {
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  double latency_s = 0;
  double bandwidth = 0;
};

/// `forwards[v]` says that routes may pass through vertex v; any vertex may be an end of a route.
struct RouteGraph {
  std::vector<GraphLink> links;
  std::vector<bool> forwards; // one entry per vertex

  [[nodiscard]] std::uint32_t vertices() const {
    return static_cast<std::uint32_t>(forwards.size());
  }

  /// Throws std::invalid_argument on an end that does not exist, a link from a vertex to itself, a
  /// latency that is negative or above 1000 s, or a bandwidth that is not greater than zero.
  void validate() const;
};

/// Link numbers from one vertex to another, in order; empty if there is no route.
using LinkPath = std::vector<std::uint32_t>;

/// Entry i * targets.size() + j is the route from sources[i] to targets[j]; empty also where the
/// two are one vertex. Throws std::invalid_argument as `RouteGraph::validate` does, and on a source
/// or target that does not exist.
[[nodiscard]] std::vector<LinkPath> shortest_routes(const RouteGraph &graph,
                                                    std::span<const std::uint32_t> sources,
                                                    std::span<const std::uint32_t> targets);

} // namespace toposeat
