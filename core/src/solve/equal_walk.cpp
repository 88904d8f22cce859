// SPDX-License-Identifier: MIT OR Apache-2.0
#include "solve/equal_walk.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <queue>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "loads/exchange_loads.hpp"
#include "solve/alike.hpp"

namespace toposeat {
namespace {

class EqualWalk {
public:
  EqualWalk(const Job &job, const Assignment &start, double start_s, double enough_s,
            const WalkEffort &effort, std::uint64_t few)
      : job_(job), by_cost_(job.request.objective == Objective::cost), alike_(job.loads, job.qap),
        loads_(exchange_loads(job.machine.network, job.request.traffic, job.qap, enough_s)),
        wanted_(job.value(job.request.objective, start)), best_s_(start_s), enough_s_(enough_s),
        left_(effort), few_(few) {
    if (start_s <= enough_s)
      left_.timings = std::min(left_.timings, few);
    if (!by_cost_ && !less_by_tolerance(wanted_, job.value(Objective::congestion, job.home)))
      wanted_mean_ = job.mean_congestion(start);
    Assignment all = job.padded(start);
    const std::uint64_t number = alike_.number(all);
    seen_.insert(number);
    add({number, wanted_, std::move(all)}, {}); // nothing else to leave at first
  }

  std::optional<Assignment> run(const Deadline &deadline) {
    while (!finished() && left_.places > 0 && !deadline.expired()) {
      const std::size_t next = next_to_leave();
      if (next == places_.size())
        break;
      --left_.places;
      places_[next].left = true;
      const Place here = places_[next]; // the list grows
      loads_->stand_on(here.placement);
      look_around(here);
    }
    return best_;
  }

private:
  struct Place {
    std::uint64_t number;
    double value;         // of the objective
    Assignment placement; // of all ranks, silent ones included
    bool left = false;
  };

  /// In order: what all links together have above the limit (a way towards placements that are fast
  /// enough where many have the same busiest link), the busiest one or the mean, and where it is in
  /// the list.
  using Rank = std::tuple<double, double, std::size_t>;

  void add(Place place, const LoadFigures &figures) {
    best_first_.emplace(figures.over_s, by_cost_ ? figures.max_s : figures.mean_s, places_.size());
    places_.push_back(std::move(place));
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

  [[nodiscard]] bool finished() const { return left_.timings == 0 || left_.placements == 0; }

  void look_around(const Place &here) {
    const std::uint32_t ranks = job_.request.traffic.ranks;
    const auto size = static_cast<std::uint32_t>(job_.qap.size());
    for (std::uint32_t r = 0; r < ranks; ++r) {
      for (std::uint32_t s = r + 1; s < size; ++s) {
        if (finished())
          return;
        if (!job_.qap.may_swap(here.placement, r, s))
          continue;
        const double value =
            by_cost_ ? here.value + swap_delta(job_.qap, here.placement, r, s) : wanted_;
        if (less_by_tolerance(wanted_, value))
          continue;
        const std::uint64_t number = alike_.exchanged(here.number, here.placement, r, s);
        if (seen_.insert(number).second)
          look_at({number, value, here.placement}, r, s);
      }
    }
  }

  void look_at(Place place, std::uint32_t r, std::uint32_t s) {
    --left_.placements;
    const LoadFigures figures = loads_->exchanged(r, s);
    if (!by_cost_ && (less_by_tolerance(wanted_, figures.max_s) ||
                      less_by_tolerance(wanted_mean_, figures.mean_s)))
      return;
    std::swap(place.placement[r], place.placement[s]);
    if (figures.max_s <= limit_s())
      time(job_.unpadded(place.placement));
    add(std::move(place), figures);
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
    // Values were added up step by step.
    if (less_by_tolerance(wanted_, job_.value(job_.request.objective, placement)))
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
  std::unique_ptr<ExchangeLoads> loads_;
  double wanted_;
  double wanted_mean_ = unlimited;
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
