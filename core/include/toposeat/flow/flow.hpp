// Max-min fair flow time: how long a phase of concurrent transfers takes on shared links.
//
// The system
// ----------
// A *variable* is the rate x[f] >= 0, in bytes per second, of a flow f between two ranks. A
// *constraint* is a capacity that several flows share: the forward direction of a link, its
// backward direction, or both together where the link has a combined capacity. An *element* is one
// use of a constraint by a flow, as its route says. At every moment, with R the flows that are
// running,
//
//     for each constraint c:   sum over f in R of  uses(f, c) * x[f]  <=  capacity[c]
//     for each flow f in R:    x[f]  <=  cap[f]                       (the limit of its pair)
//
// What is set: routes, capacities, caps and latencies (Network); bytes and messages (RankTraffic);
// device_of_rank. What is computed: the rates, hence when each flow finishes.
//
// Sharing
// -------
// Of all rates that satisfy the system the *max-min fair* ones are taken: no rate can grow without
// one that is as small or smaller shrinking. Progressive filling finds them: all rates grow
// together from 0 until a constraint is full or a cap is reached; the flows that this stops are
// frozen, the others go on. Flows are not weighted (GPU copies are not TCP: no round-trip-time
// bias).
//
// Time (phase mode)
// -----------------
// All flows are issued at time 0. A flow starts to move bytes after messages x latency of its pair:
// the messages of one pair follow one another and each pays the route's latency, so that traffic of
// M equal phases takes exactly M times one phase. Rates change only when a flow starts or finishes,
// and are computed anew only then. The result is the finish of the last flow. A flow without bytes
// finishes as it starts; so does one that nothing limits.
//
// Above 4096 flows, rates are renewed at most every 500th of the phase's lower bound (each flow
// alone, each link at full capacity): what a finish frees stays unused, and a start waits, until
// then. It is still a schedule that the links can carry, so never shorter than any lower bound; in
// tests it was less than 1 % longer than the exact one.
//
// Rounds
// ------
// In the rounds of a collective a rank talks to one partner after the other. No flow starts later
// for that, but no time is below
//
//     floor = max over ranks r of  sum over partners s of  rounds(r, s) x latency(r, s)
//
// so that the time is the larger of the floor and the finish of the last flow.
//
// This is a fluid model of link time: no start-up of copy engines, no protocol, no compute, no
// order between flows other than the above.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "toposeat/base/deadline.hpp"
#include "toposeat/base/shared.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

/// What limited a flow when no link did: the cap of its pair, or nothing but latency.
inline constexpr std::uint32_t no_link = std::numeric_limits<std::uint32_t>::max();

/// No rank, where the last flow decides.
inline constexpr std::uint32_t no_rank = std::numeric_limits<std::uint32_t>::max();

/// The flow that finishes last does so at `seconds`, unless the rounds of `waiting_rank` take
/// longer.
struct FlowTimes {
  double seconds = 0;
  std::vector<double> start_s;          // one per flow of the traffic, in its order
  std::vector<double> finish_s;         // the same
  std::uint32_t waiting_rank = no_rank; // whose rounds are the floor, where that is the time
  std::uint32_t last_flow = no_link;    // the first such flow; no_link if there is no flow
  std::uint32_t bottleneck = no_link;   // link that limited it when it finished, or no_link
};

/// For `FlowModel::seconds` where only times that are less than `seconds`, by the tolerance of
/// comparisons (1e-9), are of interest: what takes as long is given up too.
[[nodiscard]] inline double give_up_at(double seconds) { return seconds * (1 - 5e-10); }

/// Evaluates many assignments of one traffic on one network without allocating each time.
/// Network and traffic must be valid and outlive the object. Not for use by two threads at once.
class FlowModel {
public:
  FlowModel(Kept<Network> network, Kept<RankTraffic> traffic);
  FlowModel(FlowModel &&) noexcept;
  FlowModel &operator=(FlowModel &&) noexcept;
  ~FlowModel();

  /// The time. The search variant: the answer is exact up to `give_up_s`; as soon as
  /// it is known to be larger, some lower bound of it that is also larger than `give_up_s` is
  /// returned instead. `device_of_rank` must fit (`check_assignment`): it is not checked here.
  [[nodiscard]] double seconds(const Assignment &device_of_rank, double give_up_s = unlimited);

  /// From now on, `seconds` answers `unlimited` if it is not done by `end`.
  void stop_at(const Deadline &end);

  /// As `seconds` without an end, with the finish of every flow and what limited the last one.
  [[nodiscard]] FlowTimes times(const Assignment &device_of_rank);

private:
  class Simulation;
  std::unique_ptr<Simulation> simulation_;
};

/// One evaluation. Throws std::invalid_argument if the assignment does not fit.
[[nodiscard]] double flow_time(const Network &network, const RankTraffic &traffic,
                               const Assignment &device_of_rank);

/// One evaluation in detail. Throws std::invalid_argument if the assignment does not fit.
[[nodiscard]] FlowTimes flow_times(const Network &network, const RankTraffic &traffic,
                                   const Assignment &device_of_rank);

} // namespace toposeat
