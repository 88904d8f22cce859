// Hierarchies of devices, found in the numbers: a tree of blocks, each cut off by its uplink.
//
//              root                 The value of a placement on such a machine depends only on
//            /      \               which set S of ranks is below each node, through the traffic
//         block    block            that leaves S and the traffic that enters it:
//         /  \      /  \              term = max(out * leaving, in * entering, both * sum)
//        d0  d1    d2  d3
//
// Two objectives have this form. The pairwise cost, where the cost of two devices is that of their
// lowest common ancestor (an ultrametric): each node below a parent has one term with
// both = (cost(parent) - cost(node)) / 2, and all terms are added. And link congestion, where every
// link separates a block from all others: one term per link, with the inverse capacities.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "toposeat/problem/network.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// Value of what crosses the border of a block; multipliers are >= 0. If anything crosses it,
/// `fixed` (>= 0) is added.
struct CutTerm {
  double out = 0;
  double in = 0;
  double both = 0;
  double fixed = 0;

  auto operator<=>(const CutTerm &) const = default;
};

/// Node 0 is the root and holds all devices; every device has a leaf of its own.
struct CutTree {
  struct Node {
    std::uint64_t devices = 0; // bit d: device d is below
    std::vector<std::uint32_t> children;
    std::vector<CutTerm> terms;
  };
  std::uint32_t devices = 0;
  std::vector<Node> nodes;
};

inline constexpr std::uint32_t max_tree_devices = 16;

/// The hierarchy of an ultrametric, if the cost is one: symmetric (or used with symmetric traffic,
/// when only the mean of both directions counts) and cost(a, c) <= max(cost(a, b), cost(b, c)),
/// with equal cost between any two children of a node. At most `max_tree_devices` devices.
[[nodiscard]] std::optional<CutTree> cost_tree(const Qap &qap);

/// The hierarchy of the links, if every link that a route uses is used by exactly the pairs that
/// it separates. At most `max_tree_devices` devices.
[[nodiscard]] std::optional<CutTree> link_tree(const Network &network);

/// The hierarchy of those links alone that separate devices so, leaving out all others and what
/// does not fit into one tree: its least maximum is a lower bound of the congestion on `network`.
///
/// With `messages`, the fewest of any flow that carries bytes, it is a lower bound of the flow
/// time: no byte crosses a link before that many messages have taken the nearest route over it.
[[nodiscard]] std::optional<CutTree> link_tree_relaxed(const Network &network, double messages = 0);

} // namespace toposeat
