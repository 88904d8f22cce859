// Branch and bound for the pairwise cost of any machine.
//
// After Hahn, Grant, Hall, A branch-and-bound algorithm for the quadratic assignment problem based
// on the Hungarian method, European J. Oper. Res. 108, 1998. A node fixes some ranks r to devices
// p[r]; with LB its bound (bounds/dual_ascent.hpp) it is cut off when
//
//     LB + leader(r, d) > best - step
//
// where `step` is the least difference of two costs (bounds/prepared_qap.hpp). It branches on the
// rank or the device with the fewest children left; of children that a symmetry of the machine or
// of the traffic exchanges (Margot, Math. Programming 94, 2002) one is explored.
//
// Applies to every Qap (pins, allowed devices, two terms) of up to `max_branched_devices`; above,
// only the bound of the root is computed. Finished, it proves the optimum; else the least bound of
// what was left open holds for every placement.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include "toposeat/base/deadline.hpp"
#include "toposeat/problem/network.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// Above this many devices only the root bound would fit in memory; nothing is branched.
inline constexpr std::size_t max_branched_devices = 30;

inline constexpr SolverScope branch_and_bound_scope{.second_term = true, .allowed = true};

/// Improves `incumbent` (which must keep pins and allowed devices) to a proved optimum, or as far
/// as time allows.
///
/// With `upper`, only placements that cost less are of interest: if there is none, the answer's
/// value is what `incumbent` costs, and its lower bound is `upper` or more.
///
/// Nodes are bounded by dual ascent, warm-started from their parent. Branching takes the rank or
/// the device with the fewest surviving children; of children that a symmetry of the cost matrix
/// (or of the traffic) exchanges, one is explored. The lower bound of an unfinished search is the
/// least bound of what was left open, and never below the Gilmore-Lawler bound of the root.
BoundedAnswer branch_and_bound(const Qap &qap, const Assignment &incumbent,
                               const Deadline &deadline, double upper = unlimited);

} // namespace toposeat
