// SPDX-License-Identifier: MIT OR Apache-2.0
#include "groups/cut_bound.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace toposeat::groups {

namespace {

constexpr std::uint32_t most_bisected = 10; // members; of more only single ones are cut off
constexpr std::uint32_t most_covered = 8;   // members whose routes are the bits of one number

/// Resources that together have all these routes; `routes_of` has the routes of each resource.
std::vector<std::uint32_t> cover(std::uint64_t routes, const std::vector<std::uint64_t> &routes_of,
                                 const std::vector<double> &capacity) {
  std::vector<std::uint32_t> chosen;
  while (routes != 0) {
    double least = std::numeric_limits<double>::infinity();
    std::uint32_t best = 0;
    for (std::uint32_t resource = 0; resource < routes_of.size(); ++resource)
      if (const int more = std::popcount(routes_of[resource] & routes); more > 0)
        if (const double each = capacity[resource] / more; each < least) {
          least = each;
          best = resource;
        }
    if (std::isinf(least)) // a route without a resource has no limit
      return {};
    chosen.push_back(best);
    routes &= ~routes_of[best];
  }
  return chosen;
}

} // namespace

CutBound::CutBound(const GroupWiring &wiring)
    : wiring_(wiring), counted_(wiring.capacity), last_(wiring.capacity.size(), 0) {
  const std::uint32_t n = wiring.members;
  std::vector<double> halves(wiring.capacity.size(), 1.0); // what one direction has of it
  for (std::uint32_t a = 0; a < n; ++a)
    for (std::uint32_t b = 0; b < a; ++b)
      for (const std::uint32_t use : wiring.uses_of(a * n + b))
        if (const auto back = wiring.uses_of(b * n + a);
            std::find(back.begin(), back.end(), use) != back.end())
          halves[use] = 0.5;
  for (std::uint32_t a = 0; a < n; ++a)
    for (std::uint32_t b = 0; b < n; ++b) {
      const auto uses = wiring.uses_of(a * n + b);
      if (a == b || uses.empty())
        continue;
      const auto narrowest = std::min_element(uses.begin(), uses.end(), [&](auto x, auto y) {
        return wiring.capacity[x] * halves[x] < wiring.capacity[y] * halves[y];
      });
      routes_.push_back(
          {a, b, uses.front(), uses.back(), *narrowest, wiring.path_class[a * n + b]});
    }
  if (n >= 2 && n <= most_covered)
    cover_cuts();
}

/// For each cut the resources that all routes across it meet, as few of them as a greedy choice
/// finds: those of the routes of one way, and those of both, which carry every byte twice.
void CutBound::cover_cuts() {
  const std::uint32_t n = wiring_.members;
  std::vector<std::uint64_t> routes_of(wiring_.capacity.size(), 0);
  for (std::uint32_t route = 0; route < n * n; ++route)
    for (const std::uint32_t use : wiring_.uses_of(route))
      routes_of[use] |= std::uint64_t{1} << route;
  for (std::uint32_t mask = 1; mask < 1U << (n - 1); ++mask) {
    std::array<std::uint64_t, 2> ways{0, 0};
    for (std::uint32_t a = 0; a < n; ++a)
      for (std::uint32_t b = 0; b < n; ++b)
        if ((mask >> a & 1U) != (mask >> b & 1U) &&
            wiring_.path_class[a * n + b] != GroupWiring::no_path)
          ways[mask >> a & 1U] |= std::uint64_t{1} << (a * n + b);
    for (const std::uint64_t routes : {ways[0], ways[1], ways[0] | ways[1]})
      if (auto resources = cover(routes, routes_of, wiring_.capacity); !resources.empty())
        covers_.push_back({std::move(resources), routes == (ways[0] | ways[1]) ? 0.5 : 1.0});
  }
}

double CutBound::least() {
  counted_ = wiring_.capacity;
  return least_counted(GroupWiring::no_path);
}

double CutBound::least(double rate, std::uint8_t farthest) {
  std::transform(wiring_.capacity.begin(), wiring_.capacity.end(), counted_.begin(),
                 [&](double each) { return std::floor(each / rate + tolerance) * rate; });
  return least_counted(farthest);
}

double CutBound::least_counted(std::uint8_t farthest) {
  const std::uint32_t n = wiring_.members;
  double least = std::numeric_limits<double>::infinity();
  for (const Cover &each : covers_) {
    double sum = 0;
    for (const std::uint32_t resource : each.resources)
      sum += counted_[resource];
    least = std::min(least, sum * each.share);
  }
  for (std::uint32_t m = 0; m < n; ++m)
    least = std::min({least, at_member(m, farthest, true), at_member(m, farthest, false)});
  std::vector<bool> side(n);
  if (n >= 2 && n <= most_bisected) {
    for (std::uint32_t mask = 1; mask < 1U << (n - 1); ++mask) {
      for (std::uint32_t m = 0; m < n; ++m)
        side[m] = (mask >> m & 1U) != 0;
      least = std::min(least, across(side, farthest));
    }
  } else {
    for (std::uint32_t m = 0; m < n; ++m) {
      side.assign(n, false);
      side[m] = true;
      least = std::min(least, across(side, farthest));
    }
  }
  return least;
}

/// What passes a cut: one way, the other way, and half of both together.
double CutBound::across(const std::vector<bool> &side, std::uint8_t farthest) {
  const auto cross = [&](bool from) {
    for (const Crossing &route : routes_)
      if (side[route.from] == from && side[route.to] != from && route.path_class <= farthest)
        add(route.narrowest);
    return sum_;
  };
  begin();
  const double one_way = cross(true);
  const double both = cross(false);
  begin();
  return std::min({one_way, cross(false), both / 2});
}

/// What leaves a member or enters it: the first or last resources of its routes.
double CutBound::at_member(std::uint32_t member, std::uint8_t farthest, bool leaves) {
  begin();
  for (const Crossing &route : routes_)
    if ((leaves ? route.from : route.to) == member && route.path_class <= farthest)
      add(leaves ? route.first : route.last);
  return sum_;
}

void CutBound::begin() {
  mark_ += 1;
  sum_ = 0;
}

void CutBound::add(std::uint32_t resource) { // each counts once
  if (last_[resource] == mark_)
    return;
  last_[resource] = mark_;
  sum_ += counted_[resource];
}

} // namespace toposeat::groups
