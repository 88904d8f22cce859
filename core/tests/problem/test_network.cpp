// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/problem/network.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "catch.hpp"
#include "small_machines.hpp"

using namespace toposeat;
using namespace toposeat::testing;

namespace {

const double not_a_number = std::nan("");

Network two_devices() {
  NetworkBuilder builder(2);
  const auto link = builder.link(10, 10);
  return builder.route(0, 1, {{link, false}}, 5, 0.1).route(1, 0, {{link, true}}).build();
}

} // namespace

TEST_CASE("a damaged network is refused", "[network]") {
  Network network = two_devices();
  CHECK_NOTHROW(network.validate());
  SECTION("route_begin too short") { network.route_begin.pop_back(); }
  SECTION("route_begin falls") { network.route_begin = {0, 0, 2, 1, 2}; }
  SECTION("route_begin does not start at 0") { network.route_begin[0] = 1; }
  SECTION("route uses left over") { network.route_uses.push_back({0, false}); }
  SECTION("unknown link") { network.route_uses[0].link = 1; }
  SECTION("a route from a device to itself") { network.route_begin = {0, 1, 1, 2, 2}; }
  SECTION("cap missing") { network.cap.pop_back(); }
  SECTION("latency missing") { network.latency.pop_back(); }
  SECTION("zero cap") { network.cap[1] = 0; }
  SECTION("cap is not a number") { network.cap[1] = not_a_number; }
  SECTION("negative latency") { network.latency[1] = -1; }
  SECTION("infinite latency") { network.latency[1] = unlimited; }
  SECTION("zero capacity") { network.links[0].forward = 0; }
  SECTION("negative capacity") { network.links[0].backward = -1; }
  SECTION("capacity is not a number") { network.links[0].combined = not_a_number; }
  CHECK_THROWS_AS(network.validate(), std::invalid_argument);
}

TEST_CASE("a damaged traffic is refused", "[network]") {
  RankTraffic traffic = traffic_of(3, {{0, 1, 10, 1}, {1, 2, 0, 0}});
  SECTION("source out of range") { traffic.flows[0].source = 3; }
  SECTION("target out of range") { traffic.flows[0].target = 3; }
  SECTION("to itself") { traffic.flows[0].target = 0; }
  SECTION("the same pair twice") { traffic.flows.push_back({0, 1, 5, 1}); }
  SECTION("negative bytes") { traffic.flows[0].bytes = -1; }
  SECTION("bytes are not a number") { traffic.flows[0].bytes = not_a_number; }
  SECTION("infinite bytes") { traffic.flows[0].bytes = unlimited; }
  SECTION("negative messages") { traffic.flows[0].messages = -1; }
  SECTION("infinite messages") { traffic.flows[0].messages = unlimited; }
  CHECK_THROWS_AS(traffic.validate(), std::invalid_argument);
}

TEST_CASE("an assignment gives each rank a device", "[network]") {
  const Network network = FreePairs(3).build();
  CHECK_NOTHROW(check_assignment(network, 2, Assignment{2, 0}));
  CHECK_NOTHROW(check_assignment(network, 0, Assignment{}));
  CHECK_THROWS_AS(check_assignment(network, 2, Assignment{2}), std::invalid_argument);
  CHECK_NOTHROW(check_assignment(network, 2, Assignment{2, 2})); // two ranks may share one
  CHECK_THROWS_AS(check_assignment(network, 2, Assignment{2, 3}), std::invalid_argument);
}

TEST_CASE("links that join devices and switches are a network with its routes", "[network]") {
  NetworkBuilder builder(3);
  const std::uint32_t left = builder.add_switch();
  const std::uint32_t right = builder.add_switch();
  const std::uint32_t unrouted = builder.link(7, 7);
  const std::uint32_t zero = builder.join(0, left, {10, 20}, 1);
  const std::uint32_t one = builder.join(left, 1, {10, 20}, 2); // 1 is the end
  const std::uint32_t across = builder.join(left, right, {5, 5, 8}, 4);
  builder.join(left, right, {4, 4}, 4); // as short and narrower
  const std::uint32_t two = builder.join(2, right, {10, 20}, 8);
  builder.join(0, 2, {1, 1}, 100); // direct and slow
  builder.route(2, 1, {{unrouted, true}}, 3, 0.5);
  const Network network = builder.build();
  CHECK(network.links[across].combined == 8);
  CHECK(network.links[zero].backward == 20);
  const auto is = [&](std::uint32_t from, std::uint32_t to, const std::vector<LinkUse> &uses,
                      double latency_s) {
    const auto route = network.route(from, to);
    CHECK(network.latency[from * 3 + to] == latency_s);
    return std::equal(route.begin(), route.end(), uses.begin(), uses.end(),
                      [](const LinkUse &a, const LinkUse &b) {
                        return a.link == b.link && a.reverse == b.reverse;
                      });
  };
  CHECK(is(0, 1, {{zero, false}, {one, false}}, 3));
  CHECK(is(1, 0, {{one, true}, {zero, true}}, 3));
  CHECK(is(0, 2, {{zero, false}, {across, false}, {two, true}}, 13));
  CHECK(is(2, 0, {{two, false}, {across, true}, {zero, true}}, 13));
  CHECK(is(2, 1, {{unrouted, true}}, 0.5));
  CHECK(network.cap[2 * 3 + 1] == 3);
  CHECK(is(1, 1, {}, 0));
}

TEST_CASE("devices that nothing joins are no network", "[network]") {
  NetworkBuilder builder(3);
  builder.join(0, 1, {1, 1});
  CHECK_THROWS_WITH(builder.build(), "no route leads from device 0 to device 2");
  builder.join(1, 2, {1, 1}); // a device ends routes
  CHECK_THROWS_AS(builder.build(), std::invalid_argument);
  builder.join(0, 2, {1, 1});
  CHECK(builder.build().links.size() == 3);
  CHECK_THROWS_AS(builder.route(0, 3, {}), std::invalid_argument);
  builder.join(0, 9, {1, 1});
  CHECK_THROWS_AS(builder.build(), std::invalid_argument);
}
