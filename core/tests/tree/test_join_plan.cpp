// Orders of joining siblings, against trying every order.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "toposeat/base/rng.hpp"
#include "tree/join_plan.hpp"
#include "tree/rank_sets.hpp"

using namespace toposeat;

namespace {

int size_of(const SiblingCounts &group, const std::vector<SiblingKind> &kinds) {
  int size = 0;
  for (std::size_t k = 0; k < kinds.size(); ++k)
    size += group[k] * kinds[k].size;
  return size;
}

double between(const SiblingCounts &left, const SiblingCounts &right, bool halved, int ranks,
               const std::vector<SiblingKind> &kinds) {
  const int few = size_of(right, kinds);
  const int both = few + size_of(left, kinds);
  const double all = static_cast<double>(set_count(ranks, both) * set_count(both, few));
  return halved ? all * few / both : all;
}

/// Splits looked at when the plan is followed.
double planned(const JoinPlan &plan, const SiblingCounts &group, int ranks,
               const std::vector<SiblingKind> &kinds) {
  if (std::accumulate(group.begin(), group.end(), 0) < 2)
    return 0;
  const Division way = plan.divided(group);
  CHECK(size_of(way.right, kinds) <= size_of(way.left, kinds));
  for (std::size_t k = 0; k < group.size(); ++k)
    CHECK(way.left[k] + way.right[k] == group[k]);
  return planned(plan, way.right, ranks, kinds) +
         (way.left == way.right ? 0 : planned(plan, way.left, ranks, kinds)) +
         between(way.left, way.right, way.interchangeable, ranks, kinds);
}

/// The fewest of any order; `group` is taken apart in every way.
double fewest(const SiblingCounts &group, int ranks, const std::vector<SiblingKind> &kinds) {
  if (std::accumulate(group.begin(), group.end(), 0) < 2)
    return 0;
  double best = 1e300;
  SiblingCounts right(group.size());
  const auto kinds_of = std::count_if(group.begin(), group.end(), [](int n) { return n > 0; });
  const auto next = [&] {
    for (std::size_t k = 0; k < group.size(); ++k) {
      if (++right[k] <= group[k])
        return true;
      right[k] = 0;
    }
    return false;
  };
  while (next()) {
    SiblingCounts left = group;
    for (std::size_t k = 0; k < group.size(); ++k)
      left[k] -= right[k];
    if (left == SiblingCounts(group.size()) || size_of(right, kinds) > size_of(left, kinds))
      continue;
    best = std::min(best, fewest(right, ranks, kinds) +
                              (left == right ? 0 : fewest(left, ranks, kinds)) +
                              between(left, right, left == right || kinds_of == 1, ranks, kinds));
  }
  return best;
}

} // namespace

TEST_CASE("siblings are joined with the fewest splits", "[map]") {
  Rng rng(3);
  for (int repetition = 0; repetition < 40; ++repetition) {
    std::vector<SiblingKind> kinds;
    int devices = 0;
    while (kinds.size() < 4) {
      const SiblingKind kind{1 + static_cast<int>(rng.below(4)),
                             1 + static_cast<int>(rng.below(2))};
      devices += kind.size * kind.copies;
      if (devices > 16)
        break;
      kinds.push_back(kind);
    }
    const JoinPlan plan(16, kinds);
    const double fewest_splits = fewest(plan.whole(), 16, kinds);
    const double splits = planned(plan, plan.whole(), 16, kinds);
    if (size_of(plan.whole(), kinds) < 16)
      CHECK(splits == Approx(fewest_splits));
    else // a few more where that leaves sets of the same size on both sides of the root
      CHECK((splits >= fewest_splits && splits < 1.06 * fewest_splits));
  }
}

TEST_CASE("siblings of too many kinds for all orders are joined one by one", "[map]") {
  const std::vector<SiblingKind> kinds(16, SiblingKind{1, 1});
  const JoinPlan plan(16, kinds);
  const Division way = plan.divided(plan.whole());
  CHECK(std::accumulate(way.right.begin(), way.right.end(), 0) == 1);
  CHECK_FALSE(way.interchangeable);
}
