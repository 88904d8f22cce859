// SPDX-License-Identifier: MIT OR Apache-2.0
#include "bounds/load_bounds.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/rng.hpp"
#include "catch.hpp"
#include "network_builder.hpp"
#include "request_checks.hpp"

using namespace toposeat;
using toposeat::testing::NetworkBuilder;
using toposeat::testing::value_of;

namespace {

/// Small whole numbers, so that many are equal, and some entries that may not be taken.
Matrix some_matrix(std::size_t n, Rng &rng) {
  Matrix matrix(n);
  for (double &value : matrix.values)
    value = rng.below(5) == 0 ? unlimited : static_cast<double>(rng.below(12));
  return matrix;
}

double least_maximum_of_all(const Matrix &matrix, double at_least) {
  std::vector<std::size_t> column(matrix.n);
  std::iota(column.begin(), column.end(), std::size_t{0});
  double best = unlimited;
  do {
    double most = at_least;
    for (std::size_t row = 0; row < matrix.n; ++row)
      most = std::max(most, matrix(row, column[row]));
    best = std::min(best, most);
  } while (std::next_permutation(column.begin(), column.end()));
  return best;
}

/// Its corner is `matrix`; the rows below it have one place each.
Matrix enlarged(const Matrix &matrix, std::size_t n) {
  Matrix large(n);
  std::fill(large.values.begin(), large.values.end(), unlimited);
  for (std::size_t row = 0; row < n; ++row) {
    large(row, row) = 0;
    for (std::size_t column = 0; column < matrix.n && row < matrix.n; ++column)
      large(row, column) = matrix(row, column);
  }
  return large;
}

} // namespace

TEST_CASE("a bottleneck assignment has the least maximum of all assignments") {
  Rng rng(7);
  for (int round = 0; round < 300; ++round) {
    const Matrix matrix = some_matrix(1 + rng.below(6), rng);
    const auto at_least = static_cast<double>(rng.below(4));
    const double least = least_maximum_of_all(matrix, at_least);
    CHECK(bottleneck_assignment(matrix, at_least) == least);
    CHECK(bottleneck_assignment(enlarged(matrix, 20), at_least) == least);
  }
}

TEST_CASE("a link that one route passes twice is not on two routes") {
  NetworkBuilder builder(3);
  const std::uint32_t slow = builder.link(1e8, 1e9);
  const std::uint32_t fast = builder.link(1e9, 1e9);
  builder.route(0, 1, {{slow, false}, {slow, false}}).route(0, 2, {{fast, false}});
  builder.route(1, 0, {{slow, false}, {slow, false}, {fast, false}});
  builder.route(1, 2, {{slow, true}}).route(2, 1, {{fast, true}});
  builder.route(2, 0, {{slow, false}, {fast, true}});
  RankTraffic traffic;
  traffic.ranks = 2;
  traffic.flows = {{1, 0, 1000, 1}};
  MapRequest request{builder.build(), traffic, Matrix(3)};
  for (const Objective objective : {Objective::congestion, Objective::time}) {
    request.objective = objective;
    for (const Method method : {Method::keep_default, Method::automatic, Method::exact}) {
      request.method = method;
      const MapAnswer answer = solve(request);
      REQUIRE(answer.lower_bound);
      for (std::uint32_t a = 0; a < 3; ++a) {
        for (std::uint32_t b = 0; b < 3; ++b) {
          if (a != b)
            CHECK(*answer.lower_bound <= value_of(request, {a, b}) * (1 + 1e-9));
        }
      }
    }
  }
}
