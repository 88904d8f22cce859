// SPDX-License-Identifier: MIT OR Apache-2.0
#include "solve/bounded_descent.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "loads/exchange_loads.hpp"

namespace toposeat {
namespace {

constexpr std::size_t most_steps = 32;

/// Cost, or the maximum congestion and then the mean.
struct Worth {
  double first = 0;
  double second = 0;

  [[nodiscard]] bool less_than(const Worth &other) const {
    return less_by_tolerance(first, other.first) ||
           (!less_by_tolerance(other.first, first) && less_by_tolerance(second, other.second));
  }
};

class BoundedDescent {
public:
  BoundedDescent(const Job &job, double limit_s)
      : job_(job), by_cost_(job.request.objective == Objective::cost), limit_s_(limit_s),
        loads_(exchange_loads(job.machine.network, job.request.traffic, job.qap, limit_s)) {}

  struct Place {
    Assignment placement; // of all ranks, silent ones included
    Worth worth;
  };

  [[nodiscard]] Place place_of(const Assignment &placement) const {
    return {job_.padded(placement), by_cost_ ? Worth{job_.value(Objective::cost, placement), 0}
                                             : Worth{job_.value(Objective::congestion, placement),
                                                     job_.mean_congestion(placement)}};
  }

  /// All places from the first step on, each better than the one before; no link is over the limit.
  std::vector<Place> down(Place from, const Deadline &deadline) {
    std::vector<Place> path;
    while (path.size() < most_steps && !deadline.expired()) {
      std::optional<Exchange> best;
      for_each_exchange(from, [&](const Exchange &each) {
        if (each.worth.less_than(best ? best->worth : from.worth) && fits(each))
          best = each;
      });
      if (!best)
        break;
      from = after(std::move(from), *best);
      path.push_back(from);
    }
    return path;
  }

  /// To a place where no link is over the limit: at each step what takes most off the links per
  /// cost. Nothing if there is no way, or if it leads to what is not below `upper`.
  std::optional<Place> out(Place from, const Worth &upper, const Deadline &deadline) {
    for (std::size_t step = 0; step < most_steps && !deadline.expired(); ++step) {
      loads_->stand_on(from.placement);
      const double over_s = loads_->here().over_s;
      if (!(loads_->here().max_s > limit_s_))
        return from;
      std::optional<Exchange> best;
      double most = 0;
      for_each_exchange(from, [&](const Exchange &each) {
        if (!each.worth.less_than(upper))
          return;
        const double off_s = over_s - loads_->exchanged(each.r, each.s).over_s;
        const double gain =
            off_s / std::max(each.worth.first - from.worth.first, least_price(from));
        if (off_s > 0 && gain > most) {
          most = gain;
          best = each;
        }
      });
      if (!best)
        return std::nullopt;
      from = after(std::move(from), *best);
    }
    return std::nullopt;
  }

private:
  struct Exchange {
    std::uint32_t r;
    std::uint32_t s;
    Worth worth; // of the placement that it leads to
  };

  /// What costs nothing is not priceless.
  static double least_price(const Place &place) { return 1e-6 * place.worth.first; }

  template <class Visit> void for_each_exchange(const Place &from, Visit visit) {
    loads_->stand_on(from.placement);
    const auto size = static_cast<std::uint32_t>(job_.qap.size());
    for (std::uint32_t r = 0; r < job_.request.traffic.ranks; ++r) {
      for (std::uint32_t s = r + 1; s < size; ++s) {
        if (job_.qap.may_swap(from.placement, r, s))
          visit(Exchange{r, s, worth(from, r, s)});
      }
    }
  }

  [[nodiscard]] Worth worth(const Place &from, std::uint32_t r, std::uint32_t s) const {
    if (by_cost_)
      return {from.worth.first + swap_delta(job_.qap, from.placement, r, s), 0};
    const LoadFigures figures = loads_->exchanged(r, s);
    return {figures.max_s, figures.mean_s};
  }

  [[nodiscard]] bool fits(const Exchange &exchange) const {
    return loads_->exchanged(exchange.r, exchange.s).max_s <= limit_s_;
  }

  static Place after(Place from, const Exchange &exchange) {
    std::swap(from.placement[exchange.r], from.placement[exchange.s]);
    from.worth = exchange.worth;
    return from;
  }

  const Job &job_;
  bool by_cost_;
  double limit_s_;
  std::unique_ptr<ExchangeLoads> loads_;
};

} // namespace

std::optional<Assignment> better_within(const Job &job, const Assignment &refused, double limit_s,
                                        std::uint64_t timings, const Deadline &deadline) {
  const double most_s = limit_s * (1 + 1e-9);
  BoundedDescent descent(job, most_s);
  const BoundedDescent::Place home = descent.place_of(job.home);
  std::vector<BoundedDescent::Place> found = descent.down(home, deadline);
  if (auto within = descent.out(descent.place_of(refused), home.worth, deadline)) {
    found.push_back(*within);
    for (BoundedDescent::Place &each : descent.down(std::move(*within), deadline))
      found.push_back(std::move(each));
  }
  std::vector<std::size_t> order(found.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const Worth &one = found[a].worth;
    const Worth &other = found[b].worth;
    return std::tuple(one.first, one.second, a) < std::tuple(other.first, other.second, b);
  });
  for (const std::size_t each : order) {
    if (timings-- == 0 || deadline.expired())
      break;
    Assignment placement = job.unpadded(found[each].placement);
    const double seconds = job.seconds(placement, most_s);
    if (seconds > most_s || !job.improves(placement))
      continue;
    job.remember(placement, seconds);
    return placement;
  }
  return std::nullopt;
}

} // namespace toposeat
