// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/solve.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "job.hpp"
#include "toposeat/congestion.hpp"
#include "toposeat/finalists.hpp"
#include "toposeat/flow.hpp"
#include "toposeat/rng.hpp"
#include "toposeat/scotch.hpp"
#include "uniform.hpp"

namespace toposeat {
namespace {

constexpr std::size_t largest_plateau = 64; // devices for which equally good placements are timed

std::string percent(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * ratio);
  return text;
}

/// A random order of the free seats; with restrictions, a random walk of permitted exchanges.
Assignment random_placement(const Job &job) {
  Rng rng(job.request.seed);
  Assignment placement = job.padded(job.home);
  std::vector<std::uint32_t> movable;
  for (std::uint32_t r = 0; r < job.devices(); ++r) {
    if (job.qap.free_rank(r))
      movable.push_back(r);
  }
  const int rounds = job.qap.allowed.empty() ? 1 : 10;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = movable.size(); i > 1; --i) {
      const std::uint32_t r = movable[i - 1];
      const std::uint32_t s = movable[rng.below(i)];
      if (job.qap.may_swap(placement, r, s))
        std::swap(placement[r], placement[s]);
    }
  }
  return job.unpadded(placement);
}

Found from_scotch(const Job &job, MapAnswer &answer) {
  if (!scotch_scope.covers(job.qap))
    throw std::runtime_error("scotch knows no allowed devices per rank and no hybrid metric");
  const ScotchAnswer scotch = scotch_map(job.qap, job.request.seed);
  if (scotch.moved > 0)
    answer.notes.push_back("scotch did not answer one-to-one: " + std::to_string(scotch.moved) +
                           " of its ranks were moved to free devices");
  return {job.unpadded(scotch.placement), quick_bound(job, job.request.objective), "scotch"};
}

Found candidate(const Job &job, MapAnswer &answer) {
  const Objective objective = job.request.objective;
  switch (job.request.method) {
  case Method::keep_default:
    return {job.home, quick_bound(job, objective), "default"};
  case Method::random:
    return {random_placement(job), quick_bound(job, objective), "random"};
  case Method::scotch:
    return from_scotch(job, answer);
  case Method::automatic:
  case Method::exact:
  case Method::search:
    break;
  }
  if (objective == Objective::cost)
    return solve_cost(job);
  return objective == Objective::congestion ? solve_congestion(job) : solve_time(job);
}

/// Never slower than the default, and the default itself where nothing is gained.
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
    if (!slower(found.placement))
      return among_equals(found.placement, false);
    if (const std::optional<Assignment> other = best_with_less(found.placement))
      return *other == job_.home ? keep("kept the default: " + refusal(found.placement)) : *other;
    // A smaller mean alone is not worth a long walk, which may lose it again.
    const double value = job_.value(job_.request.objective, found.placement);
    const Assignment fastest = less_by_tolerance(value, home_value_)
                                   ? among_equals(found.placement, true)
                                   : found.placement;
    return slower(fastest) ? keep("kept the default: " + refusal(fastest)) : fastest;
  }

private:
  /// The best that beats the default and is not slower, instead of one that is.
  std::optional<Assignment> best_with_less(const Assignment &refused) const {
    const double value = job_.value(job_.request.objective, refused);
    const Deadline end = within(0.5);
    std::optional<Assignment> other = best_not_slower(job_, value, end);
    if (other && *other != job_.home &&
        less_by_tolerance(value, job_.value(job_.request.objective, *other)))
      answer_.notes.push_back(refusal(refused) +
                              " than the default: took the best that is not, with " + less(*other));
    return other;
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

  /// The default is only timed where its busiest link does not settle it: no time is less.
  bool slower(const Assignment &placement) const {
    const double seconds = job_.value(Objective::time, placement);
    return less_by_tolerance(job_.value(Objective::congestion, job_.home), seconds) &&
           less_by_tolerance(home_s(), seconds);
  }

  double home_s() const { return job_.value(Objective::time, job_.home); }

  std::string refusal(const Assignment &placement) const {
    const double seconds = job_.value(Objective::time, placement);
    return "the placement with " + less(placement) + " is predicted " +
           percent(seconds / home_s() - 1) + " slower";
  }

  Assignment keep(const std::string &why) {
    answer_.notes.push_back(why);
    return job_.home;
  }

  /// Placements as good by the objective, the fastest of them; harder where the guard would fail.
  Assignment among_equals(const Assignment &placement, bool guard_fails) const {
    // The congestion solvers have minimised the mean too: only a failing guard may undo that.
    const bool worthwhile = guard_fails || job_.request.objective == Objective::cost;
    if (!worthwhile || job_.devices() > largest_plateau)
      return placement;
    const auto value = [&](const Assignment &each) {
      return job_.value(job_.request.objective, each);
    };
    const Deadline end = within(0.2);
    // A fraction of a millisecond where nothing is at stake: timing grows with the flows' square.
    const std::size_t flows = job_.request.traffic.flows.size();
    const std::uint64_t few = std::min<std::uint64_t>(10, 9600 / (1 + flows * flows));
    if (!guard_fails && few == 0)
      return placement;
    return fastest_of_equals(job_.loads, placement, value, guard_fails ? 2000 : few, end);
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

bool chooses(Method method) { return method != Method::keep_default && method != Method::random; }

MapAnswer uniform_answer(const MapRequest &request, const ReducedMachine &machine) {
  MapAnswer answer;
  const Assignment &home = machine.home;
  answer.device_of_rank = machine.original(home, request.traffic.ranks);
  if (request.objective == Objective::cost) {
    Qap qap = make_qap(request.traffic, machine.cost, machine.message_cost);
    Assignment seats(qap.size());
    std::iota(seats.begin(), seats.end(), 0U); // any permutation: all cost the same
    answer.value = qap_cost(qap, seats);
  } else if (request.objective == Objective::congestion) {
    answer.value = congestion(machine.network, request.traffic, home).max_s;
  } else {
    answer.value = flow_time(machine.network, request.traffic, home);
  }
  answer.lower_bound = answer.value;
  answer.proved = answer.kept_default = answer.uniform = true;
  answer.solver = "uniform";
  answer.notes.emplace_back("nothing to gain from order: all placements are equally good");
  return answer;
}

/// Of the search: the guard times two placements after it, and a search for time may have begun one
/// more as it ends. At least a quarter of the budget is for searching.
double search_seconds(const MapRequest &request) {
  const double timings = request.objective == Objective::time ? 1 : 2;
  return std::max(0.25 * request.budget_s,
                  request.budget_s - timings * timing_seconds(request.traffic));
}

} // namespace

MapAnswer solve(const MapRequest &request) {
  const Deadline deadline = Deadline::in(search_seconds(request), request.stop);
  ReducedMachine machine(request);
  if (chooses(request.method) && every_placement_is_equal(machine, request.objective))
    return uniform_answer(request, machine);
  const Job job(request, std::move(machine), deadline);
  MapAnswer answer;
  const Found found = candidate(job, answer);
  const Assignment chosen =
      chooses(request.method) ? Guard(job, answer).choose(found) : found.placement;
  const std::uint32_t ranks = request.traffic.ranks;
  answer.device_of_rank = job.machine.original(chosen, ranks);
  answer.kept_default = answer.device_of_rank == job.machine.original(job.home, ranks);
  answer.value = job.value(request.objective, chosen);
  answer.interrupted = deadline.stopped();
  if (answer.interrupted)
    answer.notes.emplace_back("interrupted: the best placement so far");
  answer.solver = found.solver;
  answer.lower_bound = found.lower_bound;
  if (answer.lower_bound) {
    answer.proved = !less_by_tolerance(*answer.lower_bound, answer.value);
    if (answer.proved)
      answer.lower_bound = answer.value;
  }
  return answer;
}

} // namespace toposeat
