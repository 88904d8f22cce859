// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/few/small_times.hpp"

#include <algorithm>
#include <unordered_set>

#include "few/lone_flows.hpp"
#include "few/time_limit.hpp"
#include "few/timing_keys.hpp"
#include "toposeat/few/small_loads.hpp"
#include "toposeat/flow/flow.hpp"

namespace toposeat {

BoundedAnswer least_time(const LoadProblem &problem, const Assignment &incumbent,
                         double known_bound, const Deadline &deadline) {
  FlowModel model(problem.network, problem.traffic);
  BoundedAnswer best{incumbent, model.seconds(incumbent), 0, false};
  const LoneFlows flows(problem.network, problem.traffic);
  TimeLimit limit(flows, give_up_at(best.value));
  TimingKeys keys(flows);
  std::unordered_set<TimingKey, TimingKeyHash> timed;
  // No byte moves before the start, and then none faster than links.
  const auto most_s = [&] {
    return less_by_tolerance(known_bound, best.value) ? best.value - problem.floors.start_s : 0;
  };
  const auto visit = [&](const Assignment &placement) {
    if (limit.exceeded(placement) || !timed.insert(keys.of(placement)).second)
      return most_s();
    const double seconds = model.seconds(placement, give_up_at(best.value));
    if (less_by_tolerance(seconds, best.value)) {
      best.placement = placement;
      best.value = seconds;
      limit.tighten(give_up_at(seconds));
    }
    return most_s();
  };
  best.proved = visit_below(problem, incumbent, limit, deadline, visit);
  best.lower_bound = best.proved ? best.value : std::min(known_bound, best.value);
  return best;
}

} // namespace toposeat
