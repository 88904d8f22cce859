// Lower bounds of congestion and flow time by what a rank has to send or receive.
//
// Own. On a device whose routes begin with links of capacity C together, rank r needs at least
// bytes(r) / C for what it sends, and a flow at least its bytes over the widest of all routes. So
// no placement is better than
//
//     max over ranks r of min over devices d of bytes(r) / C(d)
//
// nor than the slowest flow on the pair that suits it best, nor than the rounds of a rank: on each
// device its most frequent partner at the least latency from there, and so on. Applies to every
// network and traffic (pins and allowed devices are ignored, which keeps the bounds valid): where
// no tree of separating links says more, it tells how far from the optimum an answer can be.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include "toposeat/problem/network.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// What no placement can avoid, in seconds.
struct LoadBounds {
  double start_s = 0;      // no byte moves before
  double congestion_s = 0; // of the busiest link
  double time_s = 0;       // of all flows and rounds, at least start + congestion
};

LoadBounds load_bounds(const Network &network, const RankTraffic &traffic);

/// Bytes per second of a single flow on idle links, by ordered pair.
Matrix isolated_rates(const Network &network);

} // namespace toposeat
