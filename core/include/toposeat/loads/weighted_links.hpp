// A lower bound of congestion from the work that all links of a kind must do together.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <vector>

#include "toposeat/base/deadline.hpp"
#include "toposeat/problem/network.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// Pairwise cost whose sum is the weighted mean of all links' congestion, for one set of weights.
using LinkMean = Matrix;

/// Weightings of the links that are worth trying: one for every class of links alike in capacity
/// and in how many routes use them, and one over all links.
///
/// The busiest link is at least as congested as any weighted mean of links, and of the terms of one
/// link's congestion (each direction alone, both together). Such a mean is linear in the bytes of
/// every pair of devices: a pairwise cost.
[[nodiscard]] std::vector<LinkMean> link_means(const Network &network);

/// Pairwise cost that the sum of all links' congestion never is below; it is that sum where both
/// directions of every link carry as much, or one of them nothing, or they have a capacity
/// together.
[[nodiscard]] LinkMean least_total(const Network &network);

/// Lower bound of the maximum congestion: the best dual-ascent bound of any of `link_means` and of
/// the mean of the two best. Works until `enough` is proved, and then returns `enough`.
///
/// `problem` says who talks to whom and which devices each rank may use; its distances are ignored.
/// O(classes * devices^5): for up to some 20 devices. Deterministic unless the deadline cuts it
/// short.
[[nodiscard]] double weighted_links_bound(const Network &network, const Qap &problem, double enough,
                                          const Deadline &deadline);

} // namespace toposeat
