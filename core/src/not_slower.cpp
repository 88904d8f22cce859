// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <functional>
#include <set>

#include "job.hpp"
#include "toposeat/flow.hpp"
#include "toposeat/small_loads.hpp"
#include "toposeat/small_qap.hpp"

namespace toposeat {
namespace {

constexpr std::size_t enumerated_devices = std::min(max_small_devices, max_small_loads);
constexpr std::size_t between_looks = 16; // timings from one look at the clock to the next

/// Whether placements are not predicted slower than the default; refuses all once time is up.
class NotSlower {
public:
  NotSlower(const Job &job, const Deadline &deadline)
      : job_(job), model_(job.machine.network, job.request.traffic), deadline_(deadline),
        home_s_(model_.seconds(job.home)) {}

  bool operator()(const Assignment &placement) {
    if (!links_allow(placement) || refused_.count(placement) != 0)
      return false;
    stopped_ = stopped_ || (++timed_ % between_looks == 0 && deadline_.expired());
    if (stopped_)
      return false;
    // What takes longer than this is slower, whatever it takes.
    const double give_up = home_s_ * (1 + 2e-9);
    if (!less_by_tolerance(home_s_, model_.seconds(placement, give_up)))
      return true;
    refused_.insert(placement);
    return false;
  }

  [[nodiscard]] bool stopped() const { return stopped_; }

private:
  /// No placement is faster than its busiest link, which is quick to know.
  [[nodiscard]] bool links_allow(const Assignment &placement) const {
    return !less_by_tolerance(home_s_, job_.value(Objective::congestion, placement));
  }

  const Job &job_;
  FlowModel model_;
  const Deadline &deadline_;
  double home_s_;
  std::set<Assignment> refused_; // enumerations that go further meet them again
  std::size_t timed_ = 0;
  bool stopped_ = false;
};

/// The accepted placement of least cost, or the default. It mostly is near the least that any
/// placement costs, so that at first only what is near is enumerated.
Assignment least_cost(const Job &job, double least, NotSlower &not_slower) {
  const Assignment home = job.padded(job.home);
  const double most = job.value(Objective::cost, job.home);
  for (const double share : {0.1, 0.4}) {
    const double upper = least + share * (most - least);
    const BoundedAnswer best = solve_small_qap(
        job.qap, home, upper, [&](const Assignment &all) { return not_slower(job.unpadded(all)); });
    if (not_slower.stopped() || less_by_tolerance(qap_cost(job.qap, best.placement), most))
      return job.unpadded(best.placement);
  }
  const BoundedAnswer best = solve_small_qap(job.qap, home, unlimited, [&](const Assignment &all) {
    return not_slower(job.unpadded(all));
  });
  return job.unpadded(best.placement);
}

} // namespace

std::optional<Assignment> best_not_slower(const Job &job, double least, const Deadline &deadline) {
  if (job.devices() > enumerated_devices)
    return std::nullopt;
  NotSlower not_slower(job, deadline);
  Assignment best =
      job.request.objective == Objective::cost
          ? least_cost(job, least, not_slower)
          : least_congestion(job.branched_loads(), job.home, 0, deadline, std::ref(not_slower))
                .placement;
  const bool complete = !not_slower.stopped() && !deadline.expired();
  const auto value = [&](const Assignment &each) { return job.value(job.request.objective, each); };
  if (!complete || !less_by_tolerance(value(best), value(job.home)))
    return std::nullopt;
  return best;
}

} // namespace toposeat
