// The Gilmore-Lawler bound of the pairwise cost.
//
// Gilmore, Optimal and suboptimal algorithms for the quadratic assignment problem, J. SIAM 10,
// 1962; Lawler, The quadratic assignment problem, Management Science 9, 1963. With rank i on device
// d, what it sends costs at least
//
//     c(i, d) = sum over k of (k-th largest flow of i) x (k-th smallest distance from d)
//
// for the smallest scalar product of two vectors pairs large entries with small ones. The optimum
// of the linear assignment problem with these costs is a bound; so is the one for what ranks
// receive, and the larger counts. Every row is sorted once: O(n^3).
//
// Above 256 devices the assignment is left out: the k-th largest flow of a rank then pays the least
// k-th smallest distance of any device, O(n^2 log n).
//
// It applies to every Qap: pins and allowed devices are kept (up to 256 devices), of two terms the
// bounds of both are added. It proves the root of a branch and bound, and the gap of large
// machines. SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// No placement costs less.
double gilmore_lawler_bound(const Qap &qap);

} // namespace toposeat
