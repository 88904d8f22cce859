// SPDX-License-Identifier: MIT OR Apache-2.0
#include <optional>

#include "solve/job.hpp"
#include "solve/tie_descent.hpp"
#include "toposeat/cost/cost_search.hpp"
#include "toposeat/few/small_times.hpp"

namespace toposeat {

// Where links are a tree, the least busy placement is quickly known: a better start than searches
// give, and its proof a better bound. Elsewhere the enumeration finds it on its way.
Found time_on_few_devices(const Job &job, Finalists &finalists) {
  double bound = job.floor().time_s;
  const auto open = [&] { return less_by_tolerance(bound, finalists.best_score().flow_s); };
  if (open()) {
    const std::optional<Found> least = least_busy_on_tree(job);
    if (least)
      finalists.add(least->placement);
    bound = time_bound(job, least ? least->lower_bound.value_or(0) : congestion_bound(job));
  }
  if (open()) {
    Assignment cheap = job.padded(job.home);
    descend(job.qap, cheap);
    finalists.add(job.unpadded(cheap));
  }
  Found found{finalists.best(), bound, "search met a bound"};
  double seconds = finalists.best_score().flow_s;
  if (open()) {
    const BoundedAnswer proved =
        least_time(job.branched_loads(), finalists.best(), bound, job.deadline);
    found = {proved.placement, proved.lower_bound, "branch and bound"};
    seconds = proved.value;
  }
  job.remember(found.placement, seconds);
  if (less_by_tolerance(seconds, job.value(Objective::time, job.home)))
    found.placement = best_of_equals(job, found.placement);
  return found;
}

} // namespace toposeat
