// SPDX-License-Identifier: MIT OR Apache-2.0
#include "solve/guard.hpp"

#include <algorithm>
#include <cstdio>

#include "solve/substitute.hpp"

namespace toposeat {
namespace {

constexpr std::size_t most_devices = 64;        // for which a substitute is looked for
constexpr std::size_t timed_flows = 100'000;    // by all timings of such a search together
constexpr std::size_t looked_at_flows = 400000; // by all looks at links

std::string percent(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * ratio);
  return text;
}

class Guard {
public:
  Guard(const Job &job, MapAnswer &answer)
      : job_(job), answer_(answer), home_value_(job.value(job.request.objective, job.home)) {}

  Assignment choose(const Found &found) {
    if (!job_.improves(found.placement)) {
      const bool optimal = found.lower_bound && !less_by_tolerance(*found.lower_bound, home_value_);
      return keep(optimal ? "default is already optimal"
                          : "kept the default: no better placement was found");
    }
    if (job_.request.objective == Objective::time)
      return found.placement;
    return slower(found.placement) ? instead_of(found.placement) : found.placement;
  }

private:
  /// The default is only timed where its busiest link does not settle it: no time is less.
  bool slower(const Assignment &placement) const {
    const double seconds = job_.value(Objective::time, placement);
    return less_by_tolerance(job_.value(Objective::congestion, job_.home), seconds) &&
           less_by_tolerance(home_s(), seconds);
  }

  double home_s() const { return job_.value(Objective::time, job_.home); }

  /// A placement that is as good, or else some other that beats the default, and is not slower; the
  /// default if a short search finds none.
  Assignment instead_of(const Assignment &refused) {
    if (job_.devices() <= most_devices) {
      const std::size_t flows = 1 + job_.request.traffic.flows.size();
      const std::optional<Assignment> other = not_slower_substitute(
          job_, refused, looked_at_flows / flows, timed_flows / flows, within(0.2));
      if (other && worse(*other, refused))
        answer_.notes.push_back(refusal(refused) +
                                " than the default: took one that is not, with " + less(*other));
      if (other)
        return *other;
    }
    return keep("kept the default: " + refusal(refused));
  }

  /// By the objective, and where its maximum says nothing, by the mean.
  [[nodiscard]] bool worse(const Assignment &placement, const Assignment &than) const {
    const Objective objective = job_.request.objective;
    const double value = job_.value(objective, than);
    return less_by_tolerance(value, job_.value(objective, placement)) ||
           (objective == Objective::congestion && !less_by_tolerance(value, home_value_) &&
            less_by_tolerance(job_.mean_congestion(than), job_.mean_congestion(placement)));
  }

  /// "12.0 % less cost": than the default.
  std::string less(const Assignment &placement) const {
    const double value = job_.value(job_.request.objective, placement);
    if (job_.request.objective == Objective::cost)
      return percent(1 - value / home_value_) + " less cost";
    return less_by_tolerance(value, home_value_)
               ? percent(1 - value / home_value_) + " less congestion"
               : percent(1 - job_.mean_congestion(placement) / job_.mean_congestion(job_.home)) +
                     " less mean congestion";
  }

  std::string refusal(const Assignment &placement) const {
    const double seconds = job_.value(Objective::time, placement);
    return "the placement with " + less(placement) + " is predicted " +
           percent(seconds / home_s() - 1) + " slower";
  }

  Assignment keep(const std::string &why) {
    answer_.notes.push_back(why);
    return job_.home;
  }

  /// A share of the budget out of what is left of it; a tenth of a second on top where nothing is,
  /// for a failing guard must have some time of its own.
  [[nodiscard]] Deadline within(double share) const {
    const double most = std::max(0.02, share * job_.request.budget_s);
    return Deadline::in(std::min(most, std::max(0.1, job_.deadline.left())), job_.request.stop);
  }

  const Job &job_;
  MapAnswer &answer_;
  double home_value_;
};

} // namespace

Assignment guarded(const Job &job, const Found &found, MapAnswer &answer) {
  return Guard(job, answer).choose(found);
}

} // namespace toposeat
