// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "solve/job.hpp"
#include "toposeat/cost/cost_search.hpp"
#include "toposeat/few/small_times.hpp"
#include "toposeat/problem/congestion.hpp"

namespace toposeat {
namespace {

constexpr std::size_t most_tie_timings = 20;

/// Exchanges ranks as long as that takes no longer, and is better by what comes after the time.
Assignment best_of_equals(const Job &job, const Assignment &placement) {
  const double seconds = job.value(Objective::time, placement);
  PeakModel peaks(job.machine.network, job.request.traffic);
  const auto score = [&](const Assignment &each) {
    const Peak peak = peaks.of(each);
    const auto stays = std::inner_product(each.begin(), each.end(), job.home.begin(), 0U,
                                          std::plus<>(), std::equal_to<>());
    return Score{seconds, peak.max_s, peak.mean_s, static_cast<std::uint32_t>(each.size()) - stays};
  };
  Assignment best = placement;
  Score best_score = score(best);
  std::size_t timings = most_tie_timings;
  for (bool improved = true; improved && timings > 0;) {
    improved = false;
    for_each_exchange(job.loads, Assignment(best), [&](const Assignment &changed) {
      const Score found = score(changed);
      if (!found.better_than(best_score))
        return true;
      improved = !less_by_tolerance(seconds, job.seconds(changed, seconds * (1 + 2e-9)));
      if (improved) {
        best = changed;
        best_score = found;
      }
      return !improved && --timings > 0;
    });
  }
  return best;
}

} // namespace

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
