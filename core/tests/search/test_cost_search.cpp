// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <limits>

#include "base/rng.hpp"
#include "catch.hpp"
#include "qap_brute_force.hpp"
#include "search/swap_table.hpp"
#include "toposeat/search/cost_search.hpp"

using namespace toposeat;
using namespace toposeat::testing;

namespace {

/// What a random problem has beyond one product of symmetric whole numbers.
struct Extras {
  bool directed = false;
  bool fractions = false;
  bool second_term = false;
  bool pins = false;
  bool allowed = false;
  std::size_t idle = 0;
};

Matrix random_matrix(std::size_t n, const Extras &extras, Rng &rng) {
  Matrix matrix(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const auto value = [&] {
        const double whole = rng.below(3) == 0 ? 0 : rng.below(50);
        return extras.fractions ? 0.37 * whole : whole;
      };
      matrix(i, j) = value();
      matrix(j, i) = extras.directed ? value() : matrix(i, j);
    }
  }
  return matrix;
}

void silence(Matrix &flow, std::size_t first) {
  for (std::size_t i = first; i < flow.n; ++i) {
    for (std::size_t j = 0; j < flow.n; ++j)
      flow(i, j) = flow(j, i) = 0;
  }
}

/// The identity is always allowed.
Qap random_qap(std::size_t n, const Extras &extras, Rng &rng) {
  Qap qap{random_matrix(n, extras, rng), random_matrix(n, extras, rng), n - extras.idle,
          std::vector(n, Qap::no_pin)};
  silence(qap.flow, qap.active);
  if (extras.second_term) {
    qap.flow2 = random_matrix(n, extras, rng);
    qap.distance2 = random_matrix(n, extras, rng);
    silence(qap.flow2, qap.active);
  }
  if (extras.pins)
    qap.pinned[1] = 1;
  if (extras.allowed) {
    qap.allowed = DeviceSets(n, n);
    for (std::size_t r = 0; r < qap.active; ++r) {
      for (std::size_t d = 0; d < n; ++d) {
        if (d != r && rng.below(2) == 0)
          qap.allowed.forbid(r, d);
      }
    }
  }
  return qap;
}

std::vector<Extras> all_extras() {
  std::vector<Extras> all;
  for (unsigned bits = 0; bits < 64; ++bits) {
    all.push_back({(bits & 1U) != 0, (bits & 2U) != 0, (bits & 4U) != 0, (bits & 8U) != 0,
                   (bits & 16U) != 0, (bits & 32U) != 0 ? std::size_t{2} : std::size_t{0}});
  }
  return all;
}

/// Every delta of the table against two evaluations of the whole cost.
template <class Number> void check_deltas(const Qap &qap, const SwapProblem &problem, Rng &rng) {
  SwapTable<Number> table(problem);
  table.reset(problem.reduced(identity(qap.size())));
  Assignment whole = identity(qap.size());
  for (int round = 0; round < 12; ++round) {
    problem.expand(table.placement(), whole);
    const double cost = qap_cost(qap, whole);
    CHECK(problem.fixed + problem.unit * table.cost() == Approx(cost).margin(1e-9));
    for (std::size_t i = 0; i < problem.n; ++i) {
      for (std::size_t j = i + 1; j < problem.n; ++j) {
        Assignment changed = whole;
        std::swap(changed[problem.ranks[i]], changed[problem.ranks[j]]);
        const double delta = problem.unit * static_cast<double>(table.delta(i, j));
        CHECK(delta == Approx(qap_cost(qap, changed) - cost).margin(1e-6));
        if (!table.may_exchange(i, j) && keeps_rules(qap, changed))
          CHECK(delta == Approx(0).margin(1e-6)); // barred because it changes nothing
      }
    }
    const std::size_t i = rng.below(problem.n);
    const std::size_t j = rng.below(problem.n);
    if (i != j)
      table.exchange(i, j);
  }
}

} // namespace

TEST_CASE("deltas stay those of a recomputation", "[search]") {
  Rng rng(71);
  for (const Extras &extras : all_extras()) {
    const Qap qap = random_qap(7 + rng.below(14), extras, rng);
    const SwapProblem problem = make_swap_problem(qap);
    CHECK(problem.small_integers == !extras.fractions);
    check_deltas<double>(qap, problem, rng);
    if (problem.small_integers)
      check_deltas<std::int32_t>(qap, problem, rng);
  }
}

TEST_CASE("the best exchange is the least delta that is not barred", "[search]") {
  Rng rng(72);
  const Qap qap = random_qap(18, {}, rng);
  const SwapProblem problem = make_swap_problem(qap);
  SwapTable<std::int32_t> table(problem);
  table.reset(rng.permutation(18));
  table.exchange(2, 5, 100, 100);
  std::int32_t least = std::numeric_limits<std::int32_t>::max();
  for (std::size_t i = 0; i < 18; ++i) {
    for (std::size_t j = i + 1; j < 18; ++j) {
      if (i != 2 || j != 5)
        least = std::min(least, table.delta(i, j));
    }
  }
  const auto chosen = table.best(50, std::numeric_limits<std::int32_t>::min(), 12345);
  CHECK(chosen.found);
  CHECK(chosen.delta == least);
  CHECK(table.delta(chosen.i, chosen.j) == least);
  // Both back where they were: barred until then, but not if the result would be a record.
  const std::int32_t back = table.delta(2, 5);
  const auto aspired = table.best(50, back + 1, 12345);
  CHECK(aspired.delta == std::min(least, back));
}

TEST_CASE("bytes of real traffic do not fit 32 bits, but their ratios do", "[search]") {
  Rng rng(73);
  Qap qap = random_qap(12, {}, rng);
  for (double &value : qap.flow.values)
    value *= 1048576;
  CHECK(make_swap_problem(qap).small_integers);
  qap.flow(0, 1) += 1;
  CHECK_FALSE(make_swap_problem(qap).small_integers);
  check_deltas<double>(qap, make_swap_problem(qap), rng);
}

TEST_CASE("distances that fit no 32 bits are not taken for small integers, even without traffic",
          "[search]") {
  Rng rng(75);
  Qap qap = random_qap(6, {}, rng);
  for (double &value : qap.flow.values)
    value = 0;
  qap.distance(0, 1) = 3e9;
  qap.distance(1, 0) = 7;
  const SwapProblem problem = make_swap_problem(qap);
  CHECK_FALSE(problem.small_integers);
  check_deltas<double>(qap, problem, rng);
}

TEST_CASE("the search agrees with brute force whatever the problem has", "[search]") {
  Rng rng(74);
  for (const Extras &extras : all_extras()) {
    const Qap qap = random_qap(6 + rng.below(2), extras, rng);
    SearchOptions options;
    options.seed = rng.next();
    options.moves = 2000;
    for (const SearchStrategy strategy : {SearchStrategy::automatic, SearchStrategy::memetic}) {
      options.strategy = strategy;
      const CostAnswer found = search_cost(qap, identity(qap.size()), options, Deadline::in(60));
      CHECK(keeps_rules(qap, found.placement));
      CHECK(found.cost == qap_cost(qap, found.placement));
      CHECK(found.cost == Approx(brute_force(qap)).margin(1e-9));
    }
  }
}

TEST_CASE("only a rotation of three leads from one allowed placement to the other", "[search]") {
  Rng rng(75);
  Qap qap = random_qap(3, {.directed = true}, rng);
  qap.flow.values = {0, 1, 0, 0, 0, 0, 0, 0, 0};
  qap.distance.values = {0, 9, 9, 9, 0, 1, 9, 9, 0}; // best with rank 0 on 1, rank 1 on 2
  qap.allowed = DeviceSets(3, 3);
  for (const auto &[rank, device] : {std::pair(0, 2), std::pair(1, 0), std::pair(2, 1)})
    qap.allowed.forbid(static_cast<std::size_t>(rank), static_cast<std::size_t>(device));
  SearchOptions options;
  options.moves = 200;
  const CostAnswer found = search_cost(qap, identity(3), options, Deadline::in(60));
  CHECK(found.placement == Assignment{1, 2, 0});
}

TEST_CASE("a seed decides the answer, pins are kept, visits are true", "[search]") {
  Rng rng(76);
  for (const bool fractions : {false, true}) {
    const Qap qap = random_qap(45, {.directed = true, .fractions = fractions, .pins = true}, rng);
    for (const SearchStrategy strategy :
         {SearchStrategy::automatic, SearchStrategy::tabu, SearchStrategy::iterated}) {
      SearchOptions options;
      options.seed = 5;
      options.moves = 8000;
      options.strategy = strategy;
      double least = std::numeric_limits<double>::infinity();
      options.visit = [&](const Assignment &placement, double cost) {
        CHECK(keeps_rules(qap, placement));
        CHECK(cost == Approx(qap_cost(qap, placement)));
        least = std::min(least, cost);
      };
      const CostAnswer first = search_cost(qap, identity(45), options, Deadline::in(60));
      const CostAnswer again = search_cost(qap, identity(45), options, Deadline::in(60));
      CHECK(first.placement == again.placement);
      CHECK(first.moves == again.moves);
      CHECK(first.cost == Approx(least));
      CHECK(first.cost < qap_cost(qap, identity(45)));
    }
  }
}

TEST_CASE("nothing to search ends at once", "[search]") {
  Rng rng(77);
  SearchOptions options;
  options.moves = std::numeric_limits<std::uint64_t>::max();
  Qap uniform = random_qap(9, {}, rng);
  for (std::size_t i = 0; i < uniform.distance.values.size(); ++i)
    uniform.distance.values[i] = i % 10 == 0 ? 0 : 3;
  const Deadline deadline = Deadline::in(60);
  const CostAnswer same = search_cost(uniform, identity(9), options, deadline);
  CHECK(same.placement == identity(9));
  CHECK_FALSE(deadline.expired());
  Qap pinned = random_qap(5, {}, rng);
  for (std::uint32_t r = 0; r < 5; ++r)
    pinned.pinned[r] = 4 - r;
  CHECK(search_cost(pinned, {4, 3, 2, 1, 0}, options, Deadline::in(60)).placement ==
        Assignment{4, 3, 2, 1, 0});
  const Qap single = random_qap(1, {}, rng);
  CHECK(search_cost(single, {0}, options, Deadline::in(60)).cost == 0);
}

TEST_CASE("a deadline on thread time ends the search with the best so far", "[search]") {
  Rng rng(78);
  const Qap qap = random_qap(120, {}, rng);
  SearchOptions options;
  options.moves = std::numeric_limits<std::uint64_t>::max();
  const Deadline deadline = Deadline::in(0.5, nullptr, Deadline::Clock::thread_cpu);
  const CostAnswer found = search_cost(qap, identity(120), options, deadline);
  CHECK(deadline.expired());
  CHECK(keeps_rules(qap, found.placement));
  CHECK(found.cost < qap_cost(qap, identity(120)));
}
