// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/problem/routes.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "catch.hpp"

using namespace toposeat;

namespace {

LinkPath route(const RouteGraph &graph, std::uint32_t from, std::uint32_t to) {
  return shortest_routes(graph, std::vector{from}, std::vector{to}).front();
}

/// The rules of routes.hpp read literally: all simple walks, best first.
LinkPath best_of_all(const RouteGraph &graph, std::uint32_t from, std::uint32_t to) {
  using Rank = std::tuple<long long, std::size_t, double, LinkPath>;
  if (from > to) {
    LinkPath reversed = best_of_all(graph, to, from);
    std::reverse(reversed.begin(), reversed.end());
    return reversed;
  }
  std::optional<Rank> best;
  std::vector<bool> visited(graph.vertices(), false);
  LinkPath path;
  const std::function<void(std::uint32_t, long long, double)> walk =
      [&](std::uint32_t at, long long picoseconds, double width) {
        if (at == to) {
          const Rank rank{picoseconds, path.size(), -width, path};
          if (!best || rank < *best)
            best = rank;
          return;
        }
        if (at != from && !graph.forwards[at])
          return;
        visited[at] = true;
        for (std::uint32_t i = 0; i < graph.links.size(); ++i) {
          const GraphLink &link = graph.links[i];
          if (link.a != at && link.b != at)
            continue;
          const std::uint32_t next = link.a == at ? link.b : link.a;
          if (visited[next])
            continue;
          path.push_back(i);
          walk(next, picoseconds + std::llround(link.latency_s * 1e12),
               std::min(width, link.bandwidth));
          path.pop_back();
        }
        visited[at] = false;
      };
  walk(from, 0, std::numeric_limits<double>::infinity());
  return best ? std::get<3>(*best) : LinkPath{};
}

} // namespace

TEST_CASE("least latency wins over fewer links", "[routes]") {
  //  0 --5us-- 1      0 -> 1 directly 5 us, over 2 it is 4 us
  //   \2us   /2us
  //     2
  RouteGraph graph{{{0, 1, 5e-6, 1}, {0, 2, 2e-6, 1}, {2, 1, 2e-6, 1}}, {false, false, true}};
  CHECK(route(graph, 0, 1) == LinkPath{1, 2});
  CHECK(route(graph, 1, 0) == LinkPath{2, 1});
  SECTION("fewer links break a tie") {
    graph.links[0].latency_s = 4e-6;
    CHECK(route(graph, 0, 1) == LinkPath{0});
  }
  SECTION("an endpoint is never passed through") {
    graph.forwards[2] = false;
    CHECK(route(graph, 0, 1) == LinkPath{0});
    CHECK(route(graph, 0, 2) == LinkPath{1});
  }
}

TEST_CASE("sums of latencies tie although their rounding differs", "[routes]") {
  // 0.1 + 0.2 != 0.3 + 0.0 in doubles; both walks are 0.3 s long and the numbers decide
  const RouteGraph graph{{{0, 2, 0.3, 1}, {2, 1, 0, 1}, {0, 3, 0.1, 1}, {3, 1, 0.2, 1}},
                         {false, false, true, true}};
  CHECK(route(graph, 0, 1) == LinkPath{0, 1});
}

TEST_CASE("whole picoseconds are the nearest ones", "[routes]") {
  // 1.7 * 1e-6 is a little less than 1700000 ps in doubles; twice it must tie with 3.4 us.
  const RouteGraph graph{{{0, 2, 1.7 * 1e-6, 1}, {2, 1, 1.7 * 1e-6, 1}, {0, 1, 3.4 * 1e-6, 1}},
                         {false, false, true}};
  CHECK(route(graph, 0, 1) == LinkPath{2});
}

TEST_CASE("the wider of parallel links, then the one with the smaller number", "[routes]") {
  RouteGraph graph{{{0, 1, 1e-6, 10}, {1, 0, 1e-6, 20}, {0, 1, 1e-6, 20}}, {false, false}};
  CHECK(route(graph, 0, 1) == LinkPath{1});
  graph.links[2].bandwidth = 30;
  CHECK(route(graph, 0, 1) == LinkPath{2});
}

TEST_CASE("the bottleneck of the whole route counts, not of its first part", "[routes]") {
  // Two ways to 2 (over link 0: width 5, over link 1: width 10), then one link of width 3:
  // the bottleneck is 3 either way, so the smaller number wins.
  const RouteGraph graph{{{0, 1, 1e-6, 5}, {0, 1, 1e-6, 10}, {1, 2, 1e-6, 3}},
                         {false, true, false}};
  CHECK(route(graph, 0, 2) == LinkPath{0, 2});
  CHECK(route(graph, 0, 1) == LinkPath{1});
}

TEST_CASE("no way, no links", "[routes]") {
  const RouteGraph graph{{{0, 1, 1e-6, 1}}, {true, true, true}};
  CHECK(route(graph, 0, 2).empty());
  CHECK(route(graph, 1, 1).empty());
}

TEST_CASE("all pairs come in the order asked", "[routes]") {
  const RouteGraph graph{{{0, 1, 1e-6, 1}, {1, 2, 1e-6, 1}}, {true, true, true}};
  const auto routes =
      shortest_routes(graph, std::vector<std::uint32_t>{2, 0}, std::vector<std::uint32_t>{0, 1, 2});
  CHECK(routes == std::vector<LinkPath>{{1, 0}, {1}, {}, {}, {0}, {0, 1}});
  CHECK(shortest_routes(graph, {}, std::vector<std::uint32_t>{0}).empty());
}

TEST_CASE("routes of random graphs are the best of all simple walks", "[routes]") {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t n = 3 + static_cast<std::uint32_t>(random() % 4);
    RouteGraph graph;
    for (std::uint32_t v = 0; v < n; ++v)
      graph.forwards.push_back(random() % 3 != 0);
    const auto links = n + random() % 6;
    while (graph.links.size() < links) {
      const auto a = static_cast<std::uint32_t>(random() % n);
      const auto b = static_cast<std::uint32_t>(random() % n);
      if (a == b)
        continue;
      graph.links.push_back({a, b, static_cast<double>(random() % 3) * 1e-6,
                             1.0 + static_cast<double>(random() % 3)});
    }
    for (std::uint32_t i = 0; i < n; ++i) {
      for (std::uint32_t j = 0; j < n; ++j) {
        if (i != j)
          CHECK(route(graph, i, j) == best_of_all(graph, i, j));
      }
    }
  }
}

TEST_CASE("a damaged graph is refused", "[routes]") {
  RouteGraph graph{{{0, 1, 1e-6, 1}}, {true, true}};
  std::vector<std::uint32_t> sources = {0};
  SECTION("an end that does not exist") { graph.links[0].b = 2; }
  SECTION("a link from a vertex to itself") { graph.links[0].b = 0; }
  SECTION("negative latency") { graph.links[0].latency_s = -1; }
  SECTION("latency is not a number") { graph.links[0].latency_s = std::nan(""); }
  SECTION("latency beyond reason") { graph.links[0].latency_s = 1e4; }
  SECTION("zero bandwidth") { graph.links[0].bandwidth = 0; }
  SECTION("bandwidth is not a number") { graph.links[0].bandwidth = std::nan(""); }
  SECTION("source that does not exist") { sources[0] = 2; }
  CHECK_THROWS_AS(shortest_routes(graph, sources, std::vector<std::uint32_t>{1}),
                  std::invalid_argument);
}
