// Which host each node of a large job's order gets, by the time of its phases one after the other.
//
// A node is what shares a host: its ranks stay together and keep their devices. What it sends to
// other nodes is known then, whatever the order, and only what the switches carry depends on it:
//
//     T_p = max(least_p, max(alone_p, max over links l of bytes_pl / c_l) + latency_p)
//
// `improve` is simulated annealing (Kirkpatrick, Gelatt, Vecchi, Science 220, 1983) on
// sum over p of (least_p^k + sum over l of (bytes_pl / c_l)^k)^(1/k), k = 16, which unlike the
// maximum tells a change on every busy link. Moves: a node to the leaf of one that it talks to, two
// nodes, and two runs of hosts or of nodes exchange places. It proves nothing, but up to
// `most_listed` hosts it looks at every order instead.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "toposeat/base/deadline.hpp"
#include "toposeat/base/shared.hpp"
#include "toposeat/machines/cluster_machine.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

/// What runs together: flows between slots as if node v had host v, and the seconds below which no
/// order of nodes takes it.
struct NodePhase {
  std::vector<Flow> flows;
  double least_s = 0;
};

class NodeOrders {
public:
  static constexpr std::uint32_t most_listed = 7; // hosts: 5040 orders

  /// The machine must outlive it. Throws std::invalid_argument on slots that it does not have, or
  /// if some of its hosts are joined by a fabric of their own.
  NodeOrders(Kept<ClusterMachine> machine, const std::vector<NodePhase> &phases);

  /// Seconds of each phase with node v on host `host_of_node[v]`, each on one of its own.
  [[nodiscard]] std::vector<double> seconds(const Assignment &host_of_node) const;

  struct Answer {
    Assignment host_of_node;
    std::uint64_t tried = 0; // orders that were looked at
    bool all = false;        // every order was
  };

  /// The best order found from a start, the start itself if there is none; no phase of it takes
  /// longer than `slowest_s`. It ends after `steps`, by which it cools (a move is one, and one more
  /// for each message that takes another way), at the deadline, at an order that takes `enough_s`
  /// or that no other can be better than, and after a number of moves that grows with the square
  /// of the hosts.
  [[nodiscard]] Answer improve(const Assignment &start, double slowest_s, double enough_s,
                               std::uint64_t steps, std::uint64_t seed,
                               const Deadline &deadline) const;

  /// Messages between pairs of nodes: what `seconds` takes grows with them.
  [[nodiscard]] std::size_t messages() const { return edges_.size(); }

private:
  friend class OrderWalk;

  struct Edge {             // what one node sends to another by one pair of devices
    std::uint32_t from, to; // nodes
    std::uint32_t out, in;  // devices
    std::uint32_t phase;
    double bytes, messages;
  };
  struct Fixed { // of a phase, in seconds, in any order
    double least = 0, alone = 0, latency = 0;
  };

  void check(const Assignment &host_of_node) const;
  [[nodiscard]] double total(const Assignment &host_of_node, double slowest_s) const;
  [[nodiscard]] Answer list_all(const Assignment &start, double slowest_s) const;

  const ClusterMachine &machine_;
  std::uint32_t nodes_ = 0;
  std::uint32_t links_ = 0; // those whose load depends on the order come first
  std::vector<Edge> edges_;
  std::vector<Fixed> fixed_;
};

} // namespace toposeat
