// Lower bounds of congestion and flow time by what each rank has to send and receive.
//
// Own. On device d with links of capacity C out of it, rank r needs at least bytes(r) / C, and its
// k-th largest flow at least bytes / (rate of the k-th fastest route from d). With c(r, d) the
// largest of these, no placement is better than
//
//     min over placements p of max over ranks r of c(r, p[r])
//
// a bottleneck assignment problem (Burkard, Dell'Amico, Martello, Assignment Problems, SIAM 2009,
// ch. 6), solved by thresholds and bipartite matching.
//
// Applies to every network and traffic, pins included (allowed devices are ignored, which keeps the
// bound valid). Proves optima where a single rank or flow decides; elsewhere it starts the limits.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include "toposeat/problem/network.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// What no placement can avoid. Times in seconds; rows are ranks, columns devices.
///
/// Congestion of a rank on a device: everything it sends leaves over the first links of the routes
/// from there, so that the busiest of them needs at least bytes / (sum of their capacities); the
/// same for what it receives, and for a link that all its routes share, in both directions
/// together (what goes to devices that no link lies between, seats of one device, may be as much as
/// the heaviest peers carry, and does not count); and each flow of the rank alone, the k-th largest
/// over the k-th widest route of the device. Flow time: that, after the fewest messages over the
/// nearest route of the device; and, up to 16 devices, each flow of the rank alone, its peers on
/// those devices that suit them best.
struct LoadBounds {
  Matrix congestion; // ranks x ranks are padded to devices x devices: idle ranks have 0
  Matrix time;
  double start_s = 0;      // no byte moves before
  double congestion_s = 0; // least maximum over all placements, by bottleneck assignment
  double time_s = 0;       // the same for time, and at least start + congestion
};

/// `pinned` as in Qap, one entry per device. Without `timed`, time_s stays 0 and `time` is coarse.
LoadBounds load_bounds(const Network &network, const RankTraffic &traffic,
                       const std::vector<std::uint32_t> &pinned, bool timed = true);

/// Bytes per second of a single flow on idle links, by ordered pair.
Matrix isolated_rates(const Network &network);

/// Smallest possible maximum over assignments of rows to columns, or `at_least` if that is more.
double bottleneck_assignment(const Matrix &matrix, double at_least = 0);

} // namespace toposeat
