// SPDX-License-Identifier: MIT OR Apache-2.0
#include "solve/substitute.hpp"

#include "loads/limit_search.hpp"

#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace toposeat {
namespace {

constexpr std::size_t enumerated_devices = 8;

class BestFirst {
public:
  BestFirst(const Job &job, std::size_t looks, std::size_t timings)
      : job_(job), by_cost_(job.request.objective == Objective::cost),
        peaks_(job.machine.network, job.request.traffic),
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
      return true;
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
    Assignment placement; // of all ranks, silent ones included

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
    for (std::uint32_t r = 0; r < job_.request.traffic.ranks; ++r) {
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

} // namespace

std::optional<Assignment> not_slower_substitute(const Job &job, const Assignment &refused,
                                                std::size_t looks, std::size_t timings,
                                                const Deadline &deadline) {
  return BestFirst(job, looks, timings).run(refused, deadline);
}

} // namespace toposeat
