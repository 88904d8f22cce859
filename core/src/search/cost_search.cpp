// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/search/cost_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "search/recombine.hpp"
#include "search/tabu_walk.hpp"

namespace toposeat {
namespace {

constexpr std::uint64_t endless = std::numeric_limits<std::uint64_t>::max();

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
    if (options_.strategy == SearchStrategy::tabu)
      improve(best_.placement, {endless, endless});
    else
      iterate();
  }

  /// A tabu search from `start`; its best placement is reported and compared with the best of all.
  WalkResult improve(const Assignment &start, WalkLimits limits) {
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
  void iterate() {
    const WalkLimits limits{endless, times_ranks(options_.patience)};
    const std::size_t most = std::max<std::size_t>(3, problem_.n / 2);
    WalkResult anchor{problem_.reduced(whole_), unlimited};
    shuffle(problem_, anchor.placement, rng_);
    std::size_t strength = 3;
    while (!over()) {
      Assignment start = anchor.placement;
      kick(problem_, start, strength, rng_);
      const WalkResult reached = improve(start, limits);
      const bool weak = less_by_tolerance(reached.cost, anchor.cost) || strength >= most;
      strength = weak ? 3 : strength + 1;
      choose_anchor(anchor, reached);
    }
  }

  /// Mostly the best; now and then where the walk ended, or anywhere.
  void choose_anchor(WalkResult &anchor, const WalkResult &reached) {
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

  const SwapProblem &problem_;
  const SearchOptions &options_;
  Rng rng_;
  SearchBudget budget_;
  TabuWalk<Number> walk_;
  Assignment whole_;
  WalkResult best_;
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
