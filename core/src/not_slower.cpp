// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <functional>

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
      : model_(job.machine.network, job.request.traffic), deadline_(deadline),
        home_s_(model_.seconds(job.home)) {}

  bool operator()(const Assignment &placement) {
    stopped_ = stopped_ || (++timed_ % between_looks == 0 && deadline_.expired());
    return !stopped_ && !less_by_tolerance(home_s_, model_.seconds(placement, 1.01 * home_s_));
  }

  [[nodiscard]] bool stopped() const { return stopped_; }

private:
  FlowModel model_;
  const Deadline &deadline_;
  double home_s_;
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
