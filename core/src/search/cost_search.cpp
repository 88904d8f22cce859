// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/search/cost_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "search/recombine.hpp"
#include "search/tabu_walk.hpp"

namespace toposeat {
namespace {

constexpr std::size_t small_problem = 40; // ranks up to which both methods take turns
constexpr std::uint64_t endless = std::numeric_limits<std::uint64_t>::max();
constexpr double uneven = 1.5; // coefficient of variation from which a few pairs decide

/// How a population is bred; lengths are multiples of the number of ranks.
struct Breeding {
  std::size_t members;
  double walk;     // moves of a tabu search
  double patience; // children without success, per member, that end a generation
  bool fresh;      // begins anew after that; otherwise the best member stays, the others are kicked
};

/// Standard deviation over mean of what is off the diagonal ("dominance" in the literature).
double variation(const Matrix &matrix) {
  double sum = 0;
  double squares = 0;
  for (const double value : matrix.values) {
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(matrix.n) * (static_cast<double>(matrix.n) - 1);
  if (!(sum > 0))
    return 0;
  const double mean = sum / count;
  return std::sqrt(std::max(0.0, squares / count - mean * mean)) / mean;
}

/// Uneven problems have deep and narrow valleys: many short descents from crossed placements beat
/// longer walks. See docs/adr/0006-mapper-problem.md for the measurements.
Breeding breeding_of(const SwapProblem &problem) {
  double widest = 0;
  for (const HalfTerm &half : problem.halves)
    widest = std::max({widest, variation(half.flow), variation(half.distance)});
  const bool small = problem.n <= small_problem;
  if (widest > uneven)
    return {40, 2, 3, small};
  return {15, 20, 3, small};
}

template <class Number> class CostSearch {
public:
  CostSearch(const SwapProblem &problem, const Qap &qap, const Assignment &start,
             const SearchOptions &options, const Deadline &deadline)
      : problem_(problem), options_(options), rng_(options.seed),
        budget_(options.moves, deadline, problem.n), walk_(problem, budget_, rng_), whole_(start),
        best_{problem.reduced(start), (qap_cost(qap, start) - problem.fixed) / problem.unit},
        target_(options.target < problem.fixed ? -1
                                               : (options.target - problem.fixed) / problem.unit) {}

  CostAnswer run() {
    if (several(problem_.class_of_rank) && several(problem_.class_of_device)) {
      improve(best_.placement, first_walk());
      while (!over())
        search();
    }
    problem_.expand(best_.placement, whole_);
    return {whole_, 0, budget_.used()};
  }

private:
  /// Whether exchanges between classes are left: those within one cost nothing.
  static bool several(const std::vector<std::uint32_t> &class_of) {
    return std::any_of(class_of.begin(), class_of.end(),
                       [](std::uint32_t number) { return number != 0; });
  }

  [[nodiscard]] bool over() const { return budget_.over() || best_.cost <= target_; }

  [[nodiscard]] std::uint64_t times_ranks(double factor) const {
    return static_cast<std::uint64_t>(std::ceil(factor * static_cast<double>(problem_.n)));
  }

  WalkLimits first_walk() {
    if (options_.strategy == SearchStrategy::tabu)
      return {endless, endless};
    return {endless, times_ranks(options_.patience)};
  }

  void search() {
    switch (options_.strategy) {
    case SearchStrategy::tabu:
      improve(best_.placement, {endless, endless});
      return;
    case SearchStrategy::iterated:
      iterate(endless);
      return;
    case SearchStrategy::memetic:
      breed();
      return;
    case SearchStrategy::automatic:
      break;
    }
    if (problem_.n <= small_problem)
      iterate(times_ranks(2000));
    else
      breed();
    if (problem_.n <= small_problem)
      breed();
  }

  /// A tabu search from `start`; its best placement is reported and compared with the best of all.
  Member improve(const Assignment &start, WalkLimits limits) {
    const WalkResult result = walk_.run(start, limits, best_.cost, target_);
    if (less_by_tolerance(result.cost, best_.cost))
      best_ = {result.placement, result.cost};
    if (options_.visit) {
      problem_.expand(result.placement, whole_);
      options_.visit(whole_, problem_.fixed + problem_.unit * result.cost);
    }
    return {result.placement, result.cost};
  }

  /// Tabu searches from kicked placements; the kick grows as long as nothing improves.
  void iterate(std::uint64_t moves) {
    const std::uint64_t end = moves > endless - budget_.used() ? endless : budget_.used() + moves;
    const WalkLimits limits{endless, times_ranks(options_.patience)};
    const std::size_t most = std::max<std::size_t>(3, problem_.n / 2);
    Member anchor{problem_.reduced(whole_), unlimited};
    shuffle(problem_, anchor.placement, rng_);
    std::size_t strength = 3;
    while (!over() && budget_.used() < end) {
      Assignment start = anchor.placement;
      kick(problem_, start, strength, rng_);
      const Member reached = improve(start, limits);
      const bool weak = less_by_tolerance(reached.cost, anchor.cost) || strength >= most;
      strength = weak ? 3 : strength + 1;
      choose_anchor(anchor, reached);
    }
  }

  /// Mostly the best; now and then where the walk ended, or anywhere.
  void choose_anchor(Member &anchor, const Member &reached) {
    const double dice = rng_.unit();
    if (dice < 0.05) {
      shuffle(problem_, anchor.placement, rng_);
      anchor.cost = unlimited;
    } else if (dice < 0.85 || reached.cost <= best_.cost) {
      anchor = best_;
    } else {
      anchor = reached;
    }
  }

  /// Generations until the budget ends, or until one ends if each begins anew.
  void breed() {
    const Breeding breeding = breeding_of(problem_);
    Population population(breeding.members);
    double walk = breeding.walk;
    fill(population, walk);
    while (!over()) {
      generation(population, walk, breeding);
      if (breeding.fresh)
        return;
      walk *= 1.5;
      kick_all_but_best(population, walk);
    }
  }

  [[nodiscard]] WalkLimits walk_of(double length) const {
    return {std::max<std::uint64_t>(100, times_ranks(length)), endless};
  }

  void fill(Population &population, double walk) {
    while (!population.full() && !over()) {
      Assignment start = best_.placement;
      shuffle(problem_, start, rng_);
      population.add(improve(start, walk_of(walk)));
    }
  }

  void generation(Population &population, double walk, const Breeding &breeding) {
    const auto close = static_cast<std::size_t>(0.05 * static_cast<double>(problem_.n));
    const auto patience =
        static_cast<std::size_t>(breeding.patience * static_cast<double>(breeding.members));
    for (std::size_t idle = 0; idle < patience && !over(); ++idle) {
      const auto [first, second] = population.parents(rng_);
      const Assignment &a = population.members()[first].placement;
      const Assignment &b = population.members()[second].placement;
      Assignment child = crossed(problem_, a, b, rng_);
      if (distance_between(problem_, a, b) <= close)
        kick(problem_, child, std::max<std::size_t>(3, problem_.n / 5), rng_);
      if (population.compete(improve(child, walk_of(walk))))
        idle = 0;
    }
  }

  void kick_all_but_best(Population &population, double walk) {
    population.sort();
    Population next(population.members().size());
    next.add(population.members().front());
    for (std::size_t i = 1; i < population.members().size() && !over(); ++i) {
      Assignment start = population.members()[i].placement;
      kick(problem_, start, std::max<std::size_t>(3, problem_.n / 2), rng_);
      next.add(improve(start, walk_of(walk)));
    }
    population = std::move(next);
  }

  const SwapProblem &problem_;
  const SearchOptions &options_;
  Rng rng_;
  SearchBudget budget_;
  TabuWalk<Number> walk_;
  Assignment whole_;
  Member best_;
  double target_;
};

} // namespace

double descend(const Qap &qap, Assignment &placement) {
  const std::size_t n = qap.size();
  double cost = qap_cost(qap, placement);
  bool improved = true;
  while (improved) {
    improved = false;
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t s = r + 1; s < n && qap.free_rank(r); ++s) {
        if (!qap.may_swap(placement, r, s)) {
          continue;
        }
        if (swap_delta(qap, placement, r, s) < -1e-9 * cost) {
          std::swap(placement[r], placement[s]);
          cost = qap_cost(qap, placement);
          improved = true;
        }
      }
    }
  }
  return cost;
}

CostAnswer search_cost(const Qap &qap, const Assignment &start, const SearchOptions &options,
                       const Deadline &deadline) {
  const SwapProblem problem = make_swap_problem(qap);
  CostAnswer answer = problem.small_integers
                          ? CostSearch<std::int32_t>(problem, qap, start, options, deadline).run()
                          : CostSearch<double>(problem, qap, start, options, deadline).run();
  answer.cost = qap_cost(qap, answer.placement);
  return answer;
}

} // namespace toposeat
