// The rate of a collective group on a set of devices of one node: rings that the library searches.
//
// NCCL and RCCL sort the members of a communicator by the machine and look for k directed
// Hamiltonian cycles over them, each at a rate s, such that no link carries more than it can. The
// rate is that of the set, whatever the order of the ranks:
//
//     B(S) = max k s : k cycles over S, each charging s to every resource of its hops' routes
//     U(S) = min over bipartitions (A, S \ A) of the resources on which what crosses one way meets
//
// B(S) is what a search finds, U(S) bounds it: the search ends where both meet, and levels at which
// U, with whole multiples of s alone, holds no more than was found are left out, which changes no
// result. A resource is one direction of a link, or what both directions of it share. Cycles are
// sought level by level (s falling), with the nearest classes of paths first and none farther than
// the best rings have, by a depth-first search that tries the members in their order, then the
// previous cycle again, then every next member by rate, hops and distance in the order; where all
// members hang on switches only the two neighbours. After NCCL's search (graph/search.cc of 2.30:
// levels, budgets, relaxations); its rule is no proof of the best B(S), and none is claimed here.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace toposeat {

/// The members of a group and the routes between them. Members are 0..members-1 in the machine's
/// order; the route from a to b is number a * members + b, and the diagonal has none.
struct GroupWiring {
  std::uint32_t members = 0;
  std::vector<double> capacity;           ///< of each resource, bytes per second
  std::vector<std::uint32_t> route_begin; ///< of each route its first use; one more at the end
  std::vector<std::uint32_t> uses;        ///< resources, in the order of the route
  std::vector<double> flow_cap;           ///< of each route: what one flow gets at most
  std::vector<std::uint8_t> path_class;   ///< of each route: small is near; `no_path`: none
  bool switched = false;                  ///< all routes are through switches of device links

  static constexpr std::uint8_t no_path = 255;

  [[nodiscard]] std::span<const std::uint32_t> uses_of(std::size_t route) const {
    return {uses.data() + route_begin[route], uses.data() + route_begin[route + 1]};
  }

  /// Throws std::invalid_argument on arrays that do not fit each other.
  void validate() const;
};

/// How long and how finely to search.
struct RingSearch {
  std::vector<double> levels; ///< rates of one ring to try, falling, bytes per second
  double stop_below = 0;      ///< levels below this share of the best ring's are not tried
  std::uint32_t most_rings = 24;
  std::int64_t steps_of_same = 300; ///< of a search in which all rings are alike
  std::int64_t steps = 4000;        ///< of one in which they may differ
};

/// What was found. Without any ring the members form one in their order, at the rate that fits.
struct RingRate {
  double bytes_per_s = std::numeric_limits<double>::infinity();     ///< k s; of one member infinite
  double cut_bytes_per_s = std::numeric_limits<double>::infinity(); ///< U(S)
  std::vector<std::vector<std::uint32_t>> rings;                    ///< k cycles of members
};

/// Searches rings over the members of a group. Throws what `GroupWiring::validate` throws.
[[nodiscard]] RingRate ring_rate(const GroupWiring &wiring, const RingSearch &search);

} // namespace toposeat
