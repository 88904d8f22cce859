// Groups small enough to see the rings.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/groups/ring_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>

#include "catch.hpp"

using namespace toposeat;

namespace {

/// Members joined pair by pair by links of their own, `rate` per direction; 0: no link.
GroupWiring mesh(const std::vector<std::vector<double>> &rate) {
  GroupWiring wiring;
  wiring.members = static_cast<std::uint32_t>(rate.size());
  for (std::size_t a = 0; a < rate.size(); ++a)
    for (std::size_t b = 0; b < rate.size(); ++b) {
      wiring.route_begin.push_back(static_cast<std::uint32_t>(wiring.uses.size()));
      const bool joined = a != b && rate[a][b] > 0;
      if (joined) {
        wiring.uses.push_back(static_cast<std::uint32_t>(wiring.capacity.size()));
        wiring.capacity.push_back(rate[a][b]);
      }
      wiring.flow_cap.push_back(INFINITY);
      wiring.path_class.push_back(joined || a == b ? 1 : GroupWiring::no_path);
    }
  wiring.route_begin.push_back(static_cast<std::uint32_t>(wiring.uses.size()));
  return wiring;
}

/// Members whose routes share links: random numbers of a few whole units.
GroupWiring shared_links(std::mt19937 &rng, std::uint32_t members) {
  const auto upto = [&](std::uint32_t most) {
    return std::uniform_int_distribution<std::uint32_t>(1, most)(rng);
  };
  GroupWiring wiring;
  wiring.members = members;
  for (std::uint32_t resource = 0; resource < 3 * members; ++resource)
    wiring.capacity.push_back(upto(4));
  for (std::uint32_t route = 0; route < members * members; ++route) {
    wiring.route_begin.push_back(static_cast<std::uint32_t>(wiring.uses.size()));
    const bool is_own = route / members == route % members;
    for (std::uint32_t hop = is_own ? 0 : upto(3); hop > 0; --hop)
      wiring.uses.push_back(upto(3 * members) - 1);
    wiring.flow_cap.push_back(upto(8) == 1 ? 1 : INFINITY);
    wiring.path_class.push_back(!is_own && upto(10) == 1 ? GroupWiring::no_path : 1);
  }
  wiring.route_begin.push_back(static_cast<std::uint32_t>(wiring.uses.size()));
  return wiring;
}

std::vector<std::vector<std::uint32_t>> all_cycles(std::uint32_t members) {
  std::vector<std::uint32_t> order(members);
  std::iota(order.begin(), order.end(), 0U);
  std::vector<std::vector<std::uint32_t>> cycles;
  do
    cycles.push_back(order);
  while (std::next_permutation(order.begin() + 1, order.end()));
  return cycles;
}

/// Whether a cycle may go at this rate, and what it leaves of the resources.
bool take(const GroupWiring &wiring, std::span<const std::uint32_t> cycle, double rate,
          std::vector<double> &left) {
  bool fits = true;
  for (std::size_t at = 0; at < cycle.size(); ++at) {
    const std::size_t route = cycle[at] * wiring.members + cycle[(at + 1) % cycle.size()];
    fits = fits && wiring.path_class[route] == 1 && wiring.flow_cap[route] >= rate;
    for (std::uint32_t u = wiring.route_begin[route]; u < wiring.route_begin[route + 1]; ++u)
      left[wiring.uses[u]] -= rate;
  }
  return fits && *std::min_element(left.begin(), left.end()) >= -1e-9;
}

/// The most cycles of one rate, among all combinations of them from number `first` on.
std::size_t most_cycles(const GroupWiring &wiring,
                        const std::vector<std::vector<std::uint32_t>> &cycles, std::size_t first,
                        double rate, const std::vector<double> &left) {
  std::size_t most = 0;
  for (std::size_t c = first; c < cycles.size(); ++c) {
    auto rest = left;
    if (take(wiring, cycles[c], rate, rest))
      most = std::max(most, 1 + most_cycles(wiring, cycles, c, rate, rest));
  }
  return most;
}

RingSearch levels(std::vector<double> rates) {
  RingSearch search;
  search.levels = std::move(rates);
  return search;
}

} // namespace

TEST_CASE("one member sends nothing") {
  CHECK(std::isinf(ring_rate(mesh({{0}}), levels({1})).bytes_per_s));
}

TEST_CASE("two members have the rate of one direction") {
  const RingRate found = ring_rate(mesh({{0, 24}, {24, 0}}), levels({24, 12}));
  CHECK(found.bytes_per_s == 24);
  CHECK(found.cut_bytes_per_s == 24);
  CHECK(found.rings == std::vector<std::vector<std::uint32_t>>{{0, 1}});
}

TEST_CASE("four members joined each to each have no more than leaves a member") {
  const std::vector<double> row(4, 10.0);
  auto rate = std::vector(4, row);
  for (std::size_t a = 0; a < 4; ++a)
    rate[a][a] = 0;
  const RingRate found = ring_rate(mesh(rate), levels({10, 5}));
  // K4 has no decomposition into directed Hamiltonian cycles: at a whole link's rate two fit.
  CHECK(found.bytes_per_s >= 20);
  CHECK(found.bytes_per_s <= found.cut_bytes_per_s);
  CHECK(found.cut_bytes_per_s == 30);
}

TEST_CASE("no combination of cycles is faster than what is found, nor than the bound") {
  std::mt19937 rng(17);
  int with_rings = 0;
  for (int machine = 0; machine < 400; ++machine) {
    const std::uint32_t members = 2 + static_cast<std::uint32_t>(machine) % 4;
    const GroupWiring wiring = shared_links(rng, members);
    const auto cycles = all_cycles(members);
    auto search = levels({4, 3, 2, 1.5, 1, 0.5});
    search.steps = 1'000'000; // as good as all
    double best = 0;
    for (const double rate : search.levels)
      best = std::max(
          best, rate * static_cast<double>(most_cycles(wiring, cycles, 0, rate, wiring.capacity)));
    const RingRate found = ring_rate(wiring, search);
    INFO("machine " << machine);
    if (best > 0) { // else one ring in the members' order, whatever its rate
      CHECK(found.bytes_per_s == best);
      with_rings += 1;
    }
    CHECK(found.cut_bytes_per_s >= best);
    auto left = wiring.capacity;
    if (found.bytes_per_s > 0)
      for (const auto &ring : found.rings)
        CHECK(
            take(wiring, ring, found.bytes_per_s / static_cast<double>(found.rings.size()), left));
  }
  CHECK(with_rings > 100);
}

TEST_CASE("a line has no ring, but for what goes back over it") {
  const RingRate found = ring_rate(mesh({{0, 8, 0}, {8, 0, 8}, {0, 8, 0}}), levels({8, 4}));
  CHECK(found.bytes_per_s == 0);
}

TEST_CASE("what both directions share bounds a ring to half of it") {
  GroupWiring wiring = mesh({{0, 20}, {20, 0}});
  wiring.capacity.push_back(20); // of both together
  wiring.uses = {0, 2, 1, 2};
  wiring.route_begin = {0, 0, 2, 4, 4};
  const RingRate found = ring_rate(wiring, levels({20, 10, 5}));
  CHECK(found.bytes_per_s == 10);
  CHECK(found.cut_bytes_per_s == 10);
}

TEST_CASE("arrays that do not fit are refused") {
  GroupWiring wiring = mesh({{0, 8}, {8, 0}});
  wiring.uses.back() = 7;
  CHECK_THROWS_AS(ring_rate(wiring, levels({8})), std::invalid_argument);
}
