// Exact pairwise cost on up to 8 devices: nearly plain enumeration, in a fraction of a millisecond.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include "toposeat/problem/assignment.hpp"
#include "toposeat/problem/bounded_answer.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

inline constexpr std::size_t max_small_devices = 8;
inline constexpr SolverScope small_qap_scope{.second_term = true, .allowed = true};

/// Improves `incumbent` (which must keep pins and allowed devices) to a proved optimum. With
/// `upper`, only placements that cost less are of interest: if there is none, the answer's value is
/// a cost that nothing is below, and its placement means nothing.
///
/// Depth first over the talking ranks, the busiest first; devices that a symmetry of the machine
/// exchanges are tried once at the first two levels. A node's bound is what is placed, plus for
/// every other rank the least, over free devices, of its cost to what is placed and the smallest
/// product of its other flows with the distances from there (the row minima of Gilmore and Lawler,
/// SIAM J. Appl. Math. 10, 1962, without the assignment). The last four ranks are seated in all 24
/// ways at once: even where no bound helps, 2080 nodes are seen for the 8! placements.
BoundedAnswer solve_small_qap(const Qap &qap, const Assignment &incumbent,
                              double upper = unlimited);

} // namespace toposeat
