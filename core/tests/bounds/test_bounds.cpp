// Lower bounds and the proofs built on them, against brute force.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/rng.hpp"
#include "bounds/dual_ascent.hpp"
#include "bounds/gilmore_lawler.hpp"
#include "bounds/linear_assignment.hpp"
#include "bounds/prepared_qap.hpp"
#include "catch.hpp"
#include "exact/branch_and_bound.hpp"
#include "exact/two_blocks.hpp"
#include "qap_brute_force.hpp"

using namespace toposeat;
using namespace toposeat::testing;

namespace {

Matrix random_matrix(std::size_t size, Rng &rng, double unit, std::uint32_t sparsity = 1) {
  Matrix matrix(size);
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < size; ++j) {
      if (i != j && rng.below(sparsity) == 0)
        matrix(i, j) = unit * rng.below(30);
    }
  }
  return matrix;
}

/// Asymmetric or symmetric, sparse or dense, with idle ranks, pins, allowed devices and a second
/// term, as the bits of `kind` say.
Qap random_problem(std::size_t size, std::uint32_t kind, Rng &rng) {
  const double unit = (kind & 1U) != 0 ? 0.37 : 4;
  Qap qap{random_matrix(size, rng, 3, 1 + (kind >> 1U & 1U)), random_matrix(size, rng, unit), size,
          std::vector(size, Qap::no_pin)};
  if ((kind & 4U) != 0) {
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t j = 0; j < i; ++j)
        qap.distance(i, j) = qap.distance(j, i);
    }
  }
  if ((kind & 8U) != 0) { // the last two ranks are idle
    qap.active = size - 2;
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t idle = qap.active; idle < size; ++idle)
        qap.flow(i, idle) = qap.flow(idle, i) = 0;
    }
  }
  if ((kind & 16U) != 0)
    qap.pinned[1] = 2;
  if ((kind & 32U) != 0) { // identity stays allowed, and rank 1 on 2 with rank 2 on 1
    qap.allowed = DeviceSets(size, size);
    for (std::size_t r = 0; r < qap.active; ++r) {
      for (std::size_t d = 0; d < size; ++d) {
        if (r != d && r + d != 3 && rng.below(3) == 0)
          qap.allowed.forbid(r, d);
      }
    }
  }
  if ((kind & 64U) != 0) {
    qap.flow2 = random_matrix(size, rng, 1);
    qap.distance2 = random_matrix(size, rng, 2);
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t idle = qap.active; idle < size; ++idle)
        qap.flow2(i, idle) = qap.flow2(idle, i) = 0;
    }
  }
  return qap;
}

Assignment some_start(const Qap &qap) {
  Assignment start = identity(qap.size());
  if (qap.pinned[1] == 2)
    std::swap(start[1], start[2]);
  return start;
}

} // namespace

TEST_CASE("the reduced assignment is the optimum and leaves a matrix >= 0", "[map]") {
  Rng rng(71);
  for (int k = 0; k < 200; ++k) {
    const std::size_t n = 1 + static_cast<std::size_t>(k % 7);
    Matrix matrix(n);
    for (double &value : matrix.values) {
      value = k % 3 == 0 ? rng.below(4) : 10 * rng.unit();
      if (k % 5 == 4 && rng.below(3) == 0)
        value = unlimited;
    }
    Assignment order = identity(n);
    double best = unlimited;
    do {
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i)
        sum += matrix(i, order[i]);
      best = std::min(best, sum);
    } while (std::next_permutation(order.begin(), order.end()));

    Matrix reduced = matrix;
    const double optimum = reduce_assignment(reduced.values, n);
    if (!(best < unlimited)) {
      CHECK_FALSE(optimum < unlimited);
      CHECK(reduced.values == matrix.values);
      continue;
    }
    CHECK(optimum == Approx(best).margin(1e-12));
    CHECK(std::all_of(reduced.values.begin(), reduced.values.end(),
                      [](double value) { return value >= 0; }));
    double rest = unlimited; // every assignment lost the same
    order = identity(n);
    do {
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i)
        sum += reduced(i, order[i]);
      rest = std::min(rest, sum);
    } while (std::next_permutation(order.begin(), order.end()));
    CHECK(rest == Approx(0).margin(1e-9));
  }
}

TEST_CASE("an assignment of more than 64 lines is reduced too", "[map]") {
  Rng rng(72);
  const std::size_t n = 70;
  std::vector<double> matrix(n * n, 5.0);
  const Assignment hidden = rng.permutation(n);
  for (std::size_t i = 0; i < n; ++i)
    matrix[i * n + hidden[i]] = 1;
  CHECK(reduce_assignment(matrix, n) == Approx(70));
}

TEST_CASE("a prepared problem has the same costs, in steps", "[map]") {
  Rng rng(73);
  for (std::uint32_t kind = 0; kind < 16; ++kind) {
    const Qap qap = random_problem(7, kind, rng);
    const PreparedQap prepared(qap);
    for (int k = 0; k < 20; ++k) {
      const Assignment placement = rng.permutation(7);
      const double cost = qap_cost(prepared.qap, placement);
      CHECK(prepared.original(cost) == Approx(qap_cost(qap, placement)));
      if (prepared.step > 0)
        CHECK(std::abs(std::remainder(cost, prepared.step)) < 1e-6);
    }
    CHECK(prepared.step > 0); // 0.37 is 37 / 100
  }
}

TEST_CASE("irrational costs have no step", "[map]") {
  Rng rng(74);
  Qap qap = random_problem(6, 0, rng);
  for (double &value : qap.distance.values)
    value *= std::sqrt(2.0) * (1 + rng.unit());
  const PreparedQap prepared(qap);
  CHECK(prepared.step == 0);
  const Assignment placement = rng.permutation(6);
  CHECK(prepared.original(qap_cost(prepared.qap, placement)) == Approx(qap_cost(qap, placement)));
}

TEST_CASE("no bound exceeds the optimum, whatever the problem has", "[map]") {
  Rng rng(75);
  for (std::uint32_t kind = 0; kind < 128; ++kind) {
    const Qap qap = random_problem(6, kind, rng);
    const double best = brute_force(qap);
    CAPTURE(kind);
    CHECK(gilmore_lawler_bound(qap) <= best * (1 + 1e-9));
    ReducedQap free_ascent(qap);
    free_ascent.improve(unlimited, 30, Deadline::in(60));
    CHECK(free_ascent.bound() <= best * (1 + 1e-9));
    // With fixing: valid for all placements up to `enough`.
    ReducedQap fixing(qap);
    fixing.improve(best * (1 + 1e-9), 30, Deadline::in(60));
    CHECK(fixing.bound() <= best * (1 + 1e-8));
    ReducedQap child = fixing.assign(0, 0);
    Qap pinned = qap;
    pinned.pinned[0] = 0;
    const double with_pin = brute_force(pinned);
    if (with_pin <= best * (1 + 1e-9))
      CHECK(child.bound() <= with_pin * (1 + 1e-8));
  }
}

TEST_CASE("branch and bound equals brute force, whatever the problem has", "[map]") {
  Rng rng(76);
  for (std::uint32_t kind = 0; kind < 128; ++kind) {
    const Qap qap = random_problem(kind % 21 == 0 ? 8 : kind % 5 == 0 ? 7 : 6, kind, rng);
    CAPTURE(kind);
    const Assignment start = some_start(qap);
    REQUIRE(keeps_rules(qap, start));
    const BoundedAnswer answer = branch_and_bound(qap, start, Deadline::in(60));
    const double best = brute_force(qap);
    CHECK(answer.proved);
    CHECK(answer.value == Approx(best));
    CHECK(qap_cost(qap, answer.placement) == Approx(answer.value));
    CHECK(keeps_rules(qap, answer.placement));
    CHECK(std::is_permutation(answer.placement.begin(), answer.placement.end(), start.begin()));
  }
}

TEST_CASE("relabelling ranks or devices leaves the optimum unchanged", "[map]") {
  Rng rng(77);
  for (std::uint32_t kind = 0; kind < 8; ++kind) {
    const Qap qap = random_problem(9, kind, rng);
    Qap relabelled = qap;
    const Assignment ranks = rng.permutation(9);
    const Assignment devices = rng.permutation(9);
    for (std::size_t i = 0; i < 9; ++i) {
      for (std::size_t j = 0; j < 9; ++j) {
        relabelled.flow(ranks[i], ranks[j]) = qap.flow(i, j);
        relabelled.distance(devices[i], devices[j]) = qap.distance(i, j);
      }
    }
    const BoundedAnswer one = branch_and_bound(qap, identity(9), Deadline::in(60));
    const BoundedAnswer other = branch_and_bound(relabelled, identity(9), Deadline::in(60));
    CHECK(one.proved);
    CHECK(other.proved);
    CHECK(one.value == Approx(other.value));
  }
}

TEST_CASE("an upper limit only hides what costs as much", "[map]") {
  Rng rng(78);
  for (std::uint32_t kind = 0; kind < 16; ++kind) {
    const Qap qap = random_problem(6, kind, rng);
    const double best = brute_force(qap);
    const Deadline never = Deadline::in(60);
    const BoundedAnswer above = branch_and_bound(qap, identity(6), never, best + 5);
    CHECK(above.proved);
    CHECK(above.value == Approx(best));
    CHECK(qap_cost(qap, above.placement) == Approx(best));
    const BoundedAnswer below = branch_and_bound(qap, identity(6), never, best * 0.9);
    CHECK(below.lower_bound >= best * 0.9 * (1 - 1e-9));
    CHECK(below.lower_bound <= best * (1 + 1e-9));
  }
}

TEST_CASE("two blocks are found and solved as branch and bound does", "[map]") {
  Rng rng(79);
  for (std::uint32_t kind = 0; kind < 12; ++kind) {
    // Devices in shuffled order: sizes 5 and 5, 6 and 3, or 8 and 2; inside below 30 x unit.
    const std::size_t first = kind % 3 == 0 ? 5 : (kind % 3 == 1 ? 6 : 8);
    const std::size_t n = kind % 3 == 1 ? 9 : 10;
    Qap qap = random_problem(n, kind & 7U, rng);
    if (kind % 4 == 3) { // one, three or five idle ranks
      qap.active = n - 1 - kind / 4 * 2;
      for (std::size_t r = qap.active; r < n; ++r) {
        for (std::size_t i = 0; i < n; ++i)
          qap.flow(i, r) = qap.flow(r, i) = 0;
      }
    }
    const Assignment order = rng.permutation(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        if ((i < first) != (j < first))
          qap.distance(order[i], order[j]) = 120;
        else if (kind % 2 == 0 && i != j && i < 5 && first == 5)
          qap.distance(order[i + 5], order[j + 5]) = qap.distance(order[i], order[j]);
      }
    }
    const auto blocks = two_blocks(qap);
    REQUIRE(blocks);
    CHECK(blocks->devices[0].size() + blocks->devices[1].size() == n);
    const BoundedAnswer answer = solve_two_blocks(qap, *blocks, identity(n), Deadline::in(60));
    const BoundedAnswer other = branch_and_bound(qap, identity(n), Deadline::in(60));
    CHECK(answer.proved);
    CHECK(other.proved);
    CHECK(answer.value == Approx(other.value));
    CHECK(qap_cost(qap, answer.placement) == Approx(answer.value));
    CHECK(
        std::is_permutation(answer.placement.begin(), answer.placement.end(), identity(n).begin()));
    const BoundedAnswer cut_short = solve_two_blocks(qap, *blocks, identity(n), Deadline::in(0));
    CHECK(cut_short.lower_bound <= answer.value * (1 + 1e-9));
  }
}

TEST_CASE("what is not two blocks is not taken for it", "[map]") {
  Rng rng(80);
  Qap qap = random_problem(10, 0, rng);
  CHECK_FALSE(two_blocks(qap));
  for (std::size_t i = 0; i < 10; ++i) {
    for (std::size_t j = 0; j < 10; ++j)
      qap.distance(i, j) = i == j ? 0 : (i / 5 == j / 5 ? 1 : 9);
  }
  CHECK(two_blocks(qap));
  qap.pinned[3] = 3;
  CHECK_FALSE(two_blocks(qap));
}
