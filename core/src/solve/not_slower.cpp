// SPDX-License-Identifier: MIT OR Apache-2.0
#include <functional>
#include <unordered_map>

#include "few/cheapest_first.hpp"
#include "few/lone_flows.hpp"
#include "few/time_limit.hpp"
#include "few/timing_keys.hpp"
#include "solve/job.hpp"
#include "toposeat/few/small_loads.hpp"

namespace toposeat {
namespace {

constexpr std::size_t between_looks = 16; // timings from one look at the clock to the next

/// Whether placements are not predicted slower than the default; refuses all once time is up.
class NotSlower {
public:
  /// `refused` is known to be slower.
  NotSlower(const Job &job, const Assignment &refused, const Deadline &deadline)
      : job_(job), deadline_(deadline), home_s_(job.value(Objective::time, job.home)),
        give_up_s_(home_s_ * (1 + 2e-9)), flows_(job.machine.network, job.request.traffic),
        limit_(flows_, give_up_s_), keys_(flows_) {
    accepted_.emplace(keys_.of(refused), false);
  }

  bool operator()(const Assignment &placement) {
    if (limit_.exceeded(placement))
      return false;
    const auto [known, is_new] = accepted_.try_emplace(keys_.of(placement), false);
    if (is_new) {
      stopped_ = stopped_ || (++timed_ % between_looks == 0 && deadline_.expired());
      known->second = !stopped_ && !less_by_tolerance(home_s_, job_.seconds(placement, give_up_s_));
    }
    return known->second;
  }

  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] TimeLimit &limit() { return limit_; }

private:
  const Job &job_;
  const Deadline &deadline_;
  double home_s_;
  double give_up_s_; // what takes longer is slower, whatever it takes
  LoneFlows flows_;
  TimeLimit limit_;
  TimingKeys keys_;
  std::unordered_map<TimingKey, bool, TimingKeyHash> accepted_; // what was timed
  std::size_t timed_ = 0;
  bool stopped_ = false;
};

/// The accepted placement of least cost, or the default: placements are looked at in order of cost.
Assignment least_cost(const Job &job, CheapestFirst &others, NotSlower &not_slower) {
  while (!not_slower.stopped()) {
    const std::optional<Assignment> next = others.next(not_slower.limit());
    if (!next)
      break;
    Assignment placement = job.unpadded(*next);
    if (not_slower(placement))
      return placement;
  }
  return job.home;
}

Assignment least_cost(const Job &job, const Found &refused, NotSlower &not_slower) {
  if (refused.others)
    return least_cost(job, *refused.others, not_slower);
  CheapestFirst all = cheapest_first(job.qap, job.loads, job.padded(refused.placement),
                                     job.value(Objective::cost, job.home));
  return least_cost(job, all, not_slower);
}

Assignment least_congestion(const Job &job, const Found &refused, NotSlower &not_slower,
                            const Deadline &deadline) {
  return least_congestion(job.branched_loads(), job.home,
                          job.value(Objective::congestion, refused.placement), deadline,
                          {std::ref(not_slower), &not_slower.limit()},
                          job.value(Objective::congestion, job.home))
      .placement;
}

} // namespace

std::optional<Assignment> best_not_slower(const Job &job, const Found &refused,
                                          const Deadline &deadline) {
  if (job.devices() > max_small_loads)
    return std::nullopt;
  NotSlower not_slower(job, refused.placement, deadline);
  const Assignment best = job.request.objective == Objective::cost
                              ? least_cost(job, refused, not_slower)
                              : least_congestion(job, refused, not_slower, deadline);
  const bool complete = !not_slower.stopped() && !deadline.expired();
  if (!complete)
    return std::nullopt;
  return job.improves(best) ? best : job.home;
}

} // namespace toposeat
