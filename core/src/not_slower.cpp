// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <array>
#include <functional>
#include <unordered_map>

#include "job.hpp"
#include "lone_flows.hpp"
#include "time_limit.hpp"
#include "timing_keys.hpp"
#include "toposeat/small_loads.hpp"

namespace toposeat {
namespace {

constexpr std::size_t all_placements = 40321; // of 8 ranks, and one more
constexpr std::size_t between_looks = 16;     // timings from one look at the clock to the next

/// Whether placements are not predicted slower than the default; refuses all once time is up.
class NotSlower {
public:
  NotSlower(const Job &job, const Deadline &deadline)
      : job_(job), deadline_(deadline), home_s_(job.value(Objective::time, job.home)),
        give_up_s_(home_s_ * (1 + 2e-9)), flows_(job.machine.network, job.request.traffic),
        limit_(flows_, give_up_s_), keys_(flows_) {}

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

/// How much of what the default costs more than `least` is looked at, and how many placements.
struct Pass {
  double share;
  std::size_t count;
};
constexpr std::array<Pass, 3> passes{{{0.25, 4}, {1, 32}, {1, all_placements}}};

/// The accepted placement of least cost, or the default. Those that links and lone flows do not
/// rule out are timed in order of their cost: mostly one of the first is not slower.
Assignment least_cost(const Job &job, double least, NotSlower &not_slower,
                      const Deadline &deadline) {
  // No byte moves before the start, and then none faster than links.
  const double most_s = not_slower.limit().seconds() - job.floor().start_s;
  const double most = job.value(Objective::cost, job.home);
  const auto possible = [&](const Assignment &each) { return !not_slower.limit().exceeded(each); };
  const Requirement required{possible, &not_slower.limit()};
  CheapestWithin cheap(job.branched_loads(), job.qap, most_s, deadline, required);
  for (const auto &[share, count] : passes) {
    const double upper = share < 1 ? least + share * (most - least) : most;
    const std::vector<Assignment> cheapest = cheap.below(upper, count);
    const auto accepted = std::find_if(cheapest.begin(), cheapest.end(), std::ref(not_slower));
    if (accepted != cheapest.end())
      return *accepted;
    if ((cheapest.size() < count && share == 1) || not_slower.stopped())
      break;
  }
  return job.home;
}

} // namespace

std::optional<Assignment> best_not_slower(const Job &job, double least, const Deadline &deadline) {
  if (job.devices() > max_small_loads)
    return std::nullopt;
  NotSlower not_slower(job, deadline);
  const Assignment best = job.request.objective == Objective::cost
                              ? least_cost(job, least, not_slower, deadline)
                              : least_congestion(job.branched_loads(), job.home, least, deadline,
                                                 {std::ref(not_slower), &not_slower.limit()},
                                                 job.value(Objective::congestion, job.home))
                                    .placement;
  const bool complete = !not_slower.stopped() && !deadline.expired();
  if (!complete)
    return std::nullopt;
  return job.improves(best) ? best : job.home;
}

} // namespace toposeat
