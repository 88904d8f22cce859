// The compiled machine and traffic that every evaluator and mapper works on.
//
// A Network is a Topology reduced to numbers: devices 0..n-1, links with capacities, and for each
// ordered pair of devices the links its route uses. No names, no Python, no I/O.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace toposeat {

inline constexpr double unlimited = std::numeric_limits<double>::infinity();

/// One physical link. Capacities in bytes per second, all > 0; `combined` limits both directions
/// together and is `unlimited` where they are independent.
struct LinkCapacity {
  double forward = unlimited;
  double backward = unlimited;
  double combined = unlimited;
};

/// One use of a link by a route.
struct LinkUse {
  std::uint32_t link = 0;
  bool reverse = false; // walked from ends[1] to ends[0]
};

/// One message size of a curve: a message of this size alone takes latency + size / rate.
struct CurvePoint {
  double size = 0;    // bytes of a message, > 0
  double latency = 0; // seconds
  double rate = 0;    // bytes per second, > 0
};

/// Latency and rate of a single flow by message size, points by rising size. In between, both are
/// linear in the logarithm of the size; beyond the ends they stay.
using SizeCurve = std::vector<CurvePoint>;

/// What a curve says of messages of `size` bytes; `curve` is not empty.
[[nodiscard]] CurvePoint point_at(const SizeCurve &curve, double size);

/// No limit or curve of its own, for an entry of `limit_of_pair` or `curve_of_pair`.
inline constexpr std::int32_t none_of_pair = -1;

/// Directed pair (i, j) of devices is entry i * devices + j of `route_begin` (which has
/// devices^2 + 1 entries), `cap` and `latency`. Routes from a device to itself are empty; its cap
/// and latency are those of a copy within the device, which ranks that share it use.
///
/// A route may use a link in both directions (a copy staged in host memory), and then counts in
/// both. All flows on pairs with the same number in `limit_of_pair` together keep within that entry
/// of `pair_limits`: the two directions of a pair of devices. Where a pair has a curve, `latency`
/// and `cap` are the best of it (at most the cap), so that they bound every message size.
struct Network {
  std::uint32_t devices = 0;
  std::vector<LinkCapacity> links;
  std::vector<std::uint32_t> route_begin;
  std::vector<LinkUse> route_uses;
  std::vector<double> cap;         // bytes/s of a single flow; `unlimited` if only links limit it
  std::vector<double> latency;     // seconds per message
  std::vector<double> pair_limits; // bytes/s
  std::vector<std::int32_t> limit_of_pair; // empty, or one entry per pair
  std::vector<SizeCurve> curves;
  std::vector<std::int32_t> curve_of_pair; // empty, or one entry per pair

  [[nodiscard]] std::span<const LinkUse> route(std::uint32_t from, std::uint32_t to) const {
    const std::size_t pair = static_cast<std::size_t>(from) * devices + to;
    return std::span(route_uses)
        .subspan(route_begin[pair], route_begin[pair + 1] - route_begin[pair]);
  }

  /// Number of the pair's limit or curve, or `none_of_pair`.
  [[nodiscard]] std::int32_t limit(std::size_t pair) const {
    return limit_of_pair.empty() ? none_of_pair : limit_of_pair[pair];
  }
  [[nodiscard]] std::int32_t curve(std::size_t pair) const {
    return curve_of_pair.empty() ? none_of_pair : curve_of_pair[pair];
  }

  /// Throws std::invalid_argument unless sizes, indices and capacities are consistent, and numbers
  /// (where not infinite capacities) are within 1e-30 to 1e30.
  void validate() const;
};

/// What one rank sends another, summed over the run. For so many of the messages (`rounds`) the
/// sender waits before it goes on to another rank: they are rounds of collectives.
struct Flow {
  std::uint32_t source = 0;
  std::uint32_t target = 0;
  double bytes = 0;
  double messages = 0;
  double rounds = 0;
};

/// So many of all messages (`share`, of 1) are `factor` times as large as the mean of their flow.
struct SizeShare {
  double factor = 1;
  double share = 1;
};

/// Directed sparse traffic of `ranks` ranks: at most one Flow per ordered pair, none to itself.
/// `sizes` says how message sizes spread about the mean of their flow, bytes / messages; it matters
/// only where a pair of devices has a curve.
struct RankTraffic {
  std::uint32_t ranks = 0;
  std::vector<Flow> flows;
  std::vector<SizeShare> sizes = {SizeShare{}};

  /// Throws std::invalid_argument on a rank out of range, a duplicate pair, a self flow, more
  /// rounds than messages, or a number that is negative, not finite, or beyond 1e30; or unless
  /// shares add up to 1 and shares x factors too.
  void validate() const;
};

/// device_of_rank[r] for each rank. Evaluators take several ranks on one device; searches want
/// distinct ones (see ReducedMachine for how slots become seats).
using Assignment = std::vector<std::uint32_t>;

/// Instead of a device: the rank may sit on any.
inline constexpr std::uint32_t no_pin = std::numeric_limits<std::uint32_t>::max();

/// Throws std::invalid_argument unless `device_of_rank` names one device of `network` for each of
/// `ranks` ranks. Several ranks may share a device.
void check_assignment(const Network &network, std::uint32_t ranks,
                      std::span<const std::uint32_t> device_of_rank);

} // namespace toposeat
