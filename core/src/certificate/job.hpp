// What the solvers of the three objectives share: the reduced machine, its bounds, and time.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "bounds/load_bounds.hpp"
#include "exact/cut_tree.hpp"
#include "problem/load_problem.hpp"
#include "problem/reduced_machine.hpp"
#include "search/elite_pool.hpp"
#include "toposeat/base/deadline.hpp"
#include "toposeat/flow/flow.hpp"
#include "toposeat/problem/congestion.hpp"
#include "toposeat/problem/map_request.hpp"

namespace toposeat {

/// Device numbers inside are seats of the reduced machine.
struct Job {
  Job(const MapRequest &asked, ReducedMachine &&seats, const Deadline &end);
  Job(const Job &) = delete;
  Job &operator=(const Job &) = delete;

  const MapRequest &request;
  const Deadline &deadline;
  ReducedMachine machine;
  Qap qap;
  LoadProblem loads;
  const Assignment &home; // the default placement, one seat per rank

  /// Seats, to be exact: see ReducedMachine.
  [[nodiscard]] std::size_t devices() const { return machine.device_of_seat.size(); }
  [[nodiscard]] bool may_enumerate() const { return request.method != Method::search; }
  [[nodiscard]] double effort() const; // budget in seconds, within sane limits

  /// What no placement is below, found out when it is first asked for: trees do without.
  [[nodiscard]] const LoadBounds &load_bounds() const;

  /// Adds the idle ranks on the devices left over, in order.
  [[nodiscard]] Assignment padded(const Assignment &placement) const;
  /// The talking and idle ranks of the job, without the padding.
  [[nodiscard]] Assignment unpadded(const Assignment &placement) const;
  /// Of the given objective, in its own unit.
  [[nodiscard]] double value(Objective objective, const Assignment &placement) const;
  [[nodiscard]] double mean_congestion(const Assignment &placement) const;
  /// Whether a placement is better than the default by the objective asked for: of congestion the
  /// maximum counts first, then the mean.
  [[nodiscard]] bool improves(const Assignment &placement) const;
  /// The flow time of a placement that somebody has timed already.
  void remember(const Assignment &placement, double seconds) const;
  /// As FlowModel::seconds, of the job's traffic on its machine; not remembered.
  [[nodiscard]] double seconds(const Assignment &placement, double give_up_s) const;

private:
  /// What has been found out about a placement.
  struct Figures {
    std::optional<double> cost, seconds;
    std::optional<Peak> peak;
  };
  Figures &figures(const Assignment &placement) const;
  FlowModel &flow_model() const;
  const Peak &peak(const Assignment &placement) const;

  /// The guard asks for few placements, but often; timing one of a large job takes long.
  mutable std::map<Assignment, Figures> known_;
  mutable std::optional<FlowModel> flow_model_;
  mutable std::optional<PeakModel> peak_model_;
  mutable std::optional<LoadBounds> load_bounds_;
};

/// How long one placement takes to time, roughly, on a core of 2024: in proportion to the flows,
/// and to the events, which the flow model joins above 4096 flows.
double timing_seconds(const RankTraffic &traffic);

/// A solver's best placement and a bound that holds for every placement.
struct Found {
  Assignment placement;
  std::optional<double> lower_bound;
  std::string solver;
};

/// Of `prove_by_limits`: in proportion to the budget, so that a seed gives one answer wherever it
/// suffices.
std::uint64_t steady_nodes(const Job &job);

Found solve_cost(const Job &job);
Found solve_congestion(const Job &job);
/// The same where the links are a tree and proofs are asked for; else nothing.
std::optional<Found> least_busy_on_tree(const Job &job);
Found solve_time(const Job &job);

/// Bounds that take milliseconds, to judge a placement that was not searched for.
std::optional<double> quick_bound(const Job &job, Objective objective);

/// Least maximum congestion that links alone allow: port loads, and the tree of separating links.
double congestion_bound(const Job &job);

/// Lower bound of the flow time from a lower bound of the maximum congestion.
double time_bound(const Job &job, double congestion_s);

} // namespace toposeat
