// SPDX-License-Identifier: MIT OR Apache-2.0
#include "solve/guard.hpp"

#include <algorithm>
#include <cstdio>

#include "solve/bounded_descent.hpp"
#include "solve/equal_walk.hpp"

namespace toposeat {
namespace {

constexpr std::size_t largest_plateau = 64; // devices for which equally good placements are timed

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
    return slower(found.placement) ? instead_of(found) : fast_equal(found.placement);
  }

private:
  /// The default is only timed where its busiest link does not settle it: no time is less.
  bool slower(const Assignment &placement) const {
    const double seconds = job_.value(Objective::time, placement);
    return less_by_tolerance(job_.value(Objective::congestion, job_.home), seconds) &&
           less_by_tolerance(home_s(), seconds);
  }

  double home_s() const { return job_.value(Objective::time, job_.home); }

  /// A placement as good that is faster, for some timings where they take a fraction of a
  /// millisecond: they grow with the square of the flows. The congestion solvers have minimised the
  /// mean too, which this would undo.
  Assignment fast_equal(const Assignment &placement) const {
    const std::uint64_t few = few_timings();
    if (job_.request.objective != Objective::cost || job_.devices() > largest_plateau || few == 0)
      return placement;
    const double seconds = job_.value(Objective::time, placement);
    return faster_equal(job_, placement, seconds, seconds,
                        {.places = 10, .placements = 50 * few, .timings = few}, few, within(0.2))
        .value_or(placement);
  }

  [[nodiscard]] std::uint64_t few_timings() const {
    const std::size_t flows = job_.request.traffic.flows.size();
    return std::min<std::uint64_t>(10, 9600 / (1 + flows * flows));
  }

  /// The best that beats the default and is not slower, instead of one that is.
  Assignment instead_of(const Found &found) {
    const Assignment &refused = found.placement;
    if (const std::optional<Assignment> other = best_not_slower(job_, found, within(0.5))) {
      if (*other == job_.home)
        return keep("kept the default: " + refusal(refused));
      const Objective objective = job_.request.objective;
      if (less_by_tolerance(job_.value(objective, refused), job_.value(objective, *other)))
        answer_.notes.push_back(refusal(refused) +
                                " than the default: took the best that is not, with " +
                                less(*other));
      return *other;
    }
    if (const std::optional<Assignment> other = searched_instead_of(refused))
      return *other;
    return keep("kept the default: " + refusal(refused));
  }

  /// One that is as good, or else some other that beats the default, by walks of bounded length.
  std::optional<Assignment> searched_instead_of(const Assignment &refused) {
    if (job_.devices() > largest_plateau)
      return std::nullopt;
    const Deadline end = within(0.2);
    const double seconds = job_.value(Objective::time, refused);
    // A few tenths of a millisecond, whatever the number of flows.
    const std::size_t timings = 6 + 2000 / (50 + job_.request.traffic.flows.size());
    const WalkEffort effort{.places = 2 * timings, .placements = 16 * timings, .timings = timings};
    std::optional<Assignment> other =
        faster_equal(job_, refused, seconds, home_s(), effort, few_timings(), end);
    if (other)
      return other;
    other = better_within(job_, refused, home_s(), timings / 2, end);
    if (other && worse(*other, refused))
      answer_.notes.push_back(refusal(refused) + " than the default: took one that is not, with " +
                              less(*other));
    return other;
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
