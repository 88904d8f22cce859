// SPDX-License-Identifier: MIT OR Apache-2.0
#include <stdexcept>
#include <vector>

#include "catch.hpp"
#include "small_machines.hpp"
#include "toposeat/flow/flow.hpp"
#include "toposeat/problem/congestion.hpp"

using namespace toposeat;
using namespace toposeat::testing;

namespace {

double seconds(const Network &network, const RankTraffic &traffic) {
  return flow_time(network, traffic, in_order(traffic.ranks));
}

/// One link of 100 each way and 150 together; the pair's messages: 1 s at 10 bytes/s up to 16
/// bytes, 3 s at 90 bytes/s from 64 bytes on.
Network with_curve() {
  NetworkBuilder builder(2);
  const auto link = builder.link(100, 100, 150);
  builder.route(0, 1, {{link, false}}, 90, 1).route(1, 0, {{link, true}}, 90, 1);
  Network network = builder.build();
  network.curves = {{{16, 1, 10}, {64, 3, 90}}};
  network.curve_of_pair = {none_of_pair, 0, 0, none_of_pair};
  network.validate();
  return network;
}

} // namespace

TEST_CASE("a message takes the latency and the rate of its size", "[messages]") {
  const Network network = with_curve();
  CHECK(seconds(network, traffic_of(2, {{0, 1, 8, 1}})) == Approx(1 + 8 / 10.0));
  CHECK(seconds(network, traffic_of(2, {{0, 1, 16, 1}})) == Approx(1 + 16 / 10.0));
  // Halfway between 16 and 64 in the logarithm: 2 s, 50 bytes/s.
  CHECK(seconds(network, traffic_of(2, {{0, 1, 32, 1}})) == Approx(2 + 32 / 50.0));
  CHECK(seconds(network, traffic_of(2, {{0, 1, 640, 1}})) == Approx(3 + 640 / 90.0));
  // Ten messages of 64 bytes, one after the other.
  CHECK(seconds(network, traffic_of(2, {{0, 1, 640, 10}})) == Approx(10 * (3 + 64 / 90.0)));
  CHECK(seconds(network, traffic_of(2, {{0, 1, 0, 5}})) == Approx(5.0));
  // Without messages, bytes are one message that pays no latency.
  CHECK(seconds(network, traffic_of(2, {{0, 1, 640, 0}})) == Approx(640 / 90.0));
}

TEST_CASE("messages of many sizes take what each of them takes", "[messages]") {
  const Network network = with_curve();
  RankTraffic traffic = traffic_of(2, {{0, 1, 400, 10}});
  // Nine of ten messages have 16 bytes and the tenth 256: 400 bytes.
  traffic.sizes = {{0.4, 0.9}, {6.4, 0.1}};
  traffic.validate();
  CHECK(seconds(network, traffic) == Approx(9 * (1 + 16 / 10.0) + (3 + 256 / 90.0)));
  SECTION("shares must add up and keep the mean") {
    for (const std::vector<SizeShare> &wrong : {std::vector<SizeShare>{},
                                                {{1, 0.5}},
                                                {{2, 1}},
                                                {{-1, 0.5}, {3, 0.5}},
                                                {{1, 2}, {1, -1}}}) {
      traffic.sizes = wrong;
      CHECK_THROWS_AS(traffic.validate(), std::invalid_argument);
    }
  }
}

TEST_CASE("the two directions of a pair share its limit", "[messages]") {
  NetworkBuilder builder(3);
  const auto link = builder.link(100, 100);
  for (std::uint32_t a = 0; a < 3; ++a) {
    for (std::uint32_t b = 0; b < 3; ++b) {
      if (a != b)
        builder.route(a, b, {{link, a > b}}, 80);
    }
  }
  Network network = builder.build();
  network.pair_limits = {120};
  network.limit_of_pair = {-1, 0, -1, 0, -1, -1, -1, -1, -1}; // 0 -> 1 and 1 -> 0
  network.validate();
  CHECK(seconds(network, traffic_of(3, {{0, 1, 240, 1}})) == Approx(3.0)); // at its cap
  const FlowTimes both =
      flow_times(network, traffic_of(3, {{0, 1, 240, 1}, {1, 0, 240, 1}}), in_order(3));
  CHECK(both.seconds == Approx(4.0)); // 60 each
  CHECK(both.bottleneck == no_link);
  CHECK(seconds(network, traffic_of(3, {{0, 1, 240, 1}, {2, 0, 240, 1}})) == Approx(3.0));
  CHECK(congestion(network, traffic_of(3, {{0, 1, 240, 1}}), in_order(3)).max_s == Approx(2.4));
}

TEST_CASE("limits and curves that do not fit are refused", "[messages]") {
  Network network = with_curve();
  SECTION("a curve without points") { network.curves[0].clear(); }
  SECTION("sizes that fall") { std::swap(network.curves[0][0], network.curves[0][1]); }
  SECTION("an infinite rate") { network.curves[0][0].rate = unlimited; }
  SECTION("a negative latency") { network.curves[0][0].latency = -1; }
  SECTION("an unknown curve") { network.curve_of_pair[1] = 1; }
  SECTION("too few numbers") { network.curve_of_pair.pop_back(); }
  SECTION("a latency that is not the least") { network.latency[1] = 2; }
  SECTION("an unknown limit") { network.limit_of_pair = {-1, 0, -1, -1}; }
  SECTION("a limit of zero") { network.pair_limits = {0}; }
  CHECK_THROWS_AS(network.validate(), std::invalid_argument);
}
