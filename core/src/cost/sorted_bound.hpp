// Lower bounds of the pairwise cost for machines too large for the others.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// Gilmore and Lawler's idea with every row sorted once: what rank i sends costs at least the
/// scalar product of its flows, largest first, with the distances from its device, smallest first.
/// Up to 256 devices the best device of each rank is then found by a linear assignment; beyond,
/// every rank is given, for its k-th largest flow, the least k-th smallest distance of any device:
/// O(n^2 log n). The larger of the bounds for what is sent and what is received.
double sorted_bound(const Qap &qap);

} // namespace toposeat
