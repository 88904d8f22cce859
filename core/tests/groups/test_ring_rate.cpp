// Groups small enough to see the rings.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/groups/ring_rate.hpp"

#include <cmath>
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
