// SPDX-License-Identifier: MIT OR Apache-2.0
#include "certificate/guard.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "certificate/job.hpp"
#include "exact/limit_search.hpp"

namespace toposeat {
namespace {

constexpr std::size_t enumerated_devices = 8;

class BestFirst {
public:
  BestFirst(const Job &job, std::size_t looks, std::size_t timings)
      : job_(job), by_cost_(job.request.objective == Objective::cost),
        peaks_(job.machine.network, *job.request.traffic),
        most_s_(job.value(Objective::time, job.home) * (1 + 1e-9)), looks_(looks),
        timings_(timings) {
    const Assignment home = job.padded(job.home);
    least_ = key(home, by_cost_ ? qap_cost(job.qap, home) : 0);
  }

  std::optional<Assignment> run(const Assignment &refused, const Deadline &deadline) {
    std::optional<Assignment> found = best_first(refused, deadline);
    if (job_.devices() <= enumerated_devices && job_.may_enumerate())
      enumerate(found, deadline);
    return found;
  }

private:
  std::optional<Assignment> best_first(const Assignment &refused, const Deadline &deadline) {
    std::optional<Assignment> found;
    const Assignment start = job_.padded(refused);
    add(start, by_cost_ ? qap_cost(job_.qap, start) : 0);
    while (!open_.empty() && looks_ > 0 && timings_ > 0 && !deadline.expired()) {
      const Entry best = open_.top();
      open_.pop();
      Assignment placement = job_.unpadded(best.placement);
      if (!better(best.key)) // than what was found since
        break;
      if (best.key.busiest_s <= most_s_ && fast_enough(placement)) {
        found = std::move(placement);
        least_ = best.key;
      }
      add_neighbours(best);
    }
    return found;
  }

  /// All placements whose links stay within the time of the default.
  void enumerate(std::optional<Assignment> &found, const Deadline &deadline) {
    LimitSearch search(job_.loads, true);
    search.run(most_s_ * (1 + 2e-9), deadline, [&](const Assignment &placement) {
      const Key here = key(placement, by_cost_ ? qap_cost(job_.qap, job_.padded(placement)) : 0);
      if (better(here) && here.busiest_s <= most_s_ && fast_enough(placement)) {
        found = placement;
        least_ = here;
      }
      return unlimited;
    });
  }

  /// `first` and `second` are the objective: the cost, or the maximum congestion and the mean.
  struct Key {
    double first = 0;
    double second = 0;
    double busiest_s = 0;
  };

  struct Entry {
    Key key;
    Assignment placement; // of all ranks, idle ones included

    bool operator<(const Entry &other) const { // the queue has the largest on top
      return std::tie(key.first, key.second, key.busiest_s, placement) >
             std::tie(other.key.first, other.key.second, other.key.busiest_s, other.placement);
    }
  };

  [[nodiscard]] Key key(const Assignment &placement, double cost) {
    const Peak peak = peaks_.of(placement);
    return by_cost_ ? Key{cost, 0, peak.max_s} : Key{peak.max_s, peak.mean_s, peak.max_s};
  }

  [[nodiscard]] bool better(const Key &key) const {
    return less_by_tolerance(key.first, least_.first) ||
           (!less_by_tolerance(least_.first, key.first) &&
            less_by_tolerance(key.second, least_.second));
  }

  void add(const Assignment &placement, double cost) {
    --looks_;
    const Key here = key(placement, cost);
    if (better(here))
      open_.push({here, placement});
  }

  void add_neighbours(const Entry &from) {
    const auto size = static_cast<std::uint32_t>(job_.qap.size());
    for (std::uint32_t r = 0; r < job_.request.traffic->ranks; ++r) {
      for (std::uint32_t s = r + 1; s < size && looks_ > 0; ++s) {
        if (!job_.qap.may_swap(from.placement, r, s))
          continue;
        Assignment next = from.placement;
        std::swap(next[r], next[s]);
        if (seen_.insert(next).second)
          add(next, by_cost_ ? from.key.first + swap_delta(job_.qap, from.placement, r, s) : 0);
      }
    }
  }

  [[nodiscard]] bool fast_enough(const Assignment &placement) {
    --timings_;
    const double seconds = job_.seconds(placement, most_s_);
    if (seconds > most_s_ || !job_.improves(placement)) // costs were added up step by step
      return false;
    job_.remember(placement, seconds);
    return true;
  }

  const Job &job_;
  bool by_cost_;
  PeakModel peaks_;
  double most_s_;
  std::size_t looks_;
  std::size_t timings_;
  Key least_; // of the default, then of what was found
  std::priority_queue<Entry> open_;
  std::set<Assignment> seen_;
};

/// Best-first search over exchanges of two ranks, from `refused` on, for a placement that is better
/// than the default by the objective asked for (cost or congestion) and takes no longer.
///
/// Placements are looked at in increasing order of the objective, so that those as good as
/// `refused` come first; of equal ones the one whose busiest link is least busy. A heuristic: it
/// ends after so many `looks`, or so many `timings` by the flow model, with the best found by then,
/// if any.
std::optional<Assignment> not_slower_substitute(const Job &job, const Assignment &refused,
                                                std::size_t looks, std::size_t timings,
                                                const Deadline &deadline) {
  return BestFirst(job, looks, timings).run(refused, deadline);
}

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
      const std::size_t flows = 1 + job_.request.traffic->flows.size();
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
