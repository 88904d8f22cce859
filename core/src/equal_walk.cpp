// SPDX-License-Identifier: MIT OR Apache-2.0
#include "equal_walk.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "alike.hpp"
#include "toposeat/congestion.hpp"

namespace toposeat {
namespace {

class EqualWalk {
public:
  EqualWalk(const Job &job, const Assignment &start, double start_s, double enough_s,
            const WalkEffort &effort, std::uint64_t few)
      : job_(job), by_cost_(job.request.objective == Objective::cost), alike_(job.loads, job.qap),
        loads_(job.machine.network, job.request.traffic, start),
        wanted_(job.value(job.request.objective, start)), best_s_(start_s), enough_s_(enough_s),
        left_(effort), few_(few) {
    if (start_s <= enough_s)
      left_.timings = std::min(left_.timings, few);
    Assignment all = job.padded(start);
    const std::uint64_t number = alike_.number(all);
    seen_.insert(number);
    add(number, std::move(all), over(), loads_.max_s());
  }

  std::optional<Assignment> run(const Deadline &deadline) {
    while (!finished() && !deadline.expired()) {
      const std::size_t next = next_to_leave();
      if (next == places_.size())
        break;
      places_[next].left = true;
      const Place here = places_[next]; // the list grows
      stand_on(here.placement);
      look_around(here);
    }
    return best_;
  }

private:
  struct Place {
    std::uint64_t number;
    Assignment placement; // of all ranks, silent ones included
    bool left = false;
  };

  /// In order: what all links together have above the limit, the busiest one, and where it is in
  /// the list.
  using Rank = std::tuple<double, double, std::size_t>;

  void add(std::uint64_t number, Assignment placement, double over_s, double max_s) {
    best_first_.emplace(over_s, max_s, places_.size());
    places_.push_back({number, std::move(placement)});
  }

  /// The best one and the oldest one in turn: the best alone lead into valleys that are closed on
  /// all sides.
  std::size_t next_to_leave() {
    by_age_ = !by_age_;
    if (!by_age_) {
      while (!best_first_.empty() && places_[std::get<2>(best_first_.top())].left)
        best_first_.pop();
      return best_first_.empty() ? places_.size() : std::get<2>(best_first_.top());
    }
    while (oldest_ < places_.size() && places_[oldest_].left)
      ++oldest_;
    return oldest_;
  }

  /// Above the limit: a way towards placements that are fast enough where many have the same
  /// busiest link.
  [[nodiscard]] double over() const {
    double sum = 0;
    for (const double seconds : loads_.seconds())
      sum += std::max(0.0, seconds - enough_s_);
    return sum;
  }

  [[nodiscard]] bool finished() const { return left_.timings == 0 || left_.placements == 0; }

  void stand_on(const Assignment &placement) {
    for (std::uint32_t rank = 0; rank < job_.request.traffic.ranks; ++rank) {
      if (loads_.device_of_rank()[rank] != placement[rank])
        loads_.move(rank, placement[rank]);
    }
    loads_.commit();
  }

  void look_around(const Place &here) {
    const std::uint32_t ranks = job_.request.traffic.ranks;
    const auto size = static_cast<std::uint32_t>(job_.qap.size());
    Assignment changed = here.placement;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      for (std::uint32_t s = r + 1; s < size; ++s) {
        if (finished())
          return;
        if (!job_.qap.may_swap(here.placement, r, s) || !keeps_cost(here.placement, r, s))
          continue;
        const std::uint64_t number = alike_.exchanged(here.number, here.placement, r, s);
        if (!seen_.insert(number).second)
          continue;
        std::swap(changed[r], changed[s]);
        look_at(changed, here.placement[r], here.placement[s], number);
        std::swap(changed[r], changed[s]);
      }
    }
  }

  [[nodiscard]] bool keeps_cost(const Assignment &placement, std::uint32_t r,
                                std::uint32_t s) const {
    return !by_cost_ ||
           !less_by_tolerance(wanted_, wanted_ + swap_delta(job_.qap, placement, r, s));
  }

  void look_at(const Assignment &changed, std::uint32_t a, std::uint32_t b, std::uint64_t number) {
    --left_.placements;
    loads_.exchange(a, b);
    const double max_s = loads_.max_s();
    const double over_s = over();
    loads_.undo();
    if (less_by_tolerance(wanted_, by_cost_ ? qap_cost(job_.qap, changed) : max_s))
      return;
    if (max_s <= limit_s())
      time(job_.unpadded(changed));
    add(number, changed, over_s, max_s);
  }

  /// What takes longer need not be timed.
  [[nodiscard]] double limit_s() const {
    return best_s_ > enough_s_ ? enough_s_ * (1 + 1e-9) : best_s_;
  }

  void time(Assignment placement) {
    --left_.timings;
    const double seconds = job_.seconds(placement, limit_s());
    const bool first = best_s_ > enough_s_;
    if (first ? seconds > limit_s() : !less_by_tolerance(seconds, best_s_))
      return;
    best_s_ = seconds;
    job_.remember(placement, seconds);
    best_ = std::move(placement);
    if (first)
      left_.timings = std::min(left_.timings, few_);
  }

  const Job &job_;
  bool by_cost_;
  Alike alike_;
  LinkLoads loads_;
  double wanted_;
  double best_s_;
  double enough_s_;
  WalkEffort left_;
  std::uint64_t few_;
  std::optional<Assignment> best_;
  std::unordered_set<std::uint64_t> seen_; // numbers of placements
  std::vector<Place> places_;
  std::priority_queue<Rank, std::vector<Rank>, std::greater<>> best_first_;
  std::size_t oldest_ = 0; // none before it is still to be left
  bool by_age_ = true;
};

} // namespace

std::optional<Assignment> faster_equal(const Job &job, const Assignment &start, double start_s,
                                       double enough_s, const WalkEffort &effort, std::uint64_t few,
                                       const Deadline &deadline) {
  return EqualWalk(job, start, start_s, enough_s, effort, few).run(deadline);
}

} // namespace toposeat
