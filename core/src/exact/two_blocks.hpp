// Least pairwise cost on two nodes of up to 8 devices each, whatever the nodes are inside.
//
// Own method. With one distance D between the blocks, and S the ranks in the first one,
//
//     cost(p) = D x (bytes between S and the others) + cost of S inside + cost of the others inside
//
// All sets S are listed in increasing order of a lower bound of the three (inside, the scalar
// product of falling flows and rising distances), bounded better (Gilmore, Lawler), and each block
// solved by branch and bound, until the bound reaches the best cost.
//
// Applies to 9 to 16 devices without pins, restrictions or a second term. It proves the optimum;
// ended early, the bound of the first set left open holds for every placement.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "toposeat/base/deadline.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// Devices in two blocks with one and the same distance, in both directions, between any device of
/// one and any of the other, and no larger one inside.
struct TwoBlocks {
  std::array<std::vector<std::uint32_t>, 2> devices;
  double between = 0;
};

/// The two blocks of a machine with 9 to 16 devices, up to 8 in each; nothing if there are none, or
/// if the problem has pins, restrictions or a second term.
[[nodiscard]] std::optional<TwoBlocks> two_blocks(const Qap &qap);

/// Improves `incumbent` to a proved optimum, or as far as time allows.
///
/// What crosses between the blocks depends only on which ranks are in which, and there are at most
/// 12870 such divisions. They are taken in increasing order of a bound: what crosses, plus for each
/// block the smallest product of the traffic inside with the distances there. Those below the
/// incumbent are bounded better (Gilmore and Lawler), and solved by `branch_and_bound` if need be.
/// The order makes the bound of the first one left the lower bound of an unfinished search.
BoundedAnswer solve_two_blocks(const Qap &qap, const TwoBlocks &blocks, const Assignment &incumbent,
                               const Deadline &deadline);

} // namespace toposeat
