// Least congestion and least flow time by limits, against every placement; and the kernels for wide
// vectors against those for narrow ones.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "base/rng.hpp"
#include "catch.hpp"
#include "exact/limit_kernel.hpp"
#include "exact/limit_proof.hpp"
#include "exact/limit_search.hpp"
#include "small_machines.hpp"
#include "toposeat/flow/flow.hpp"
#include "toposeat/problem/congestion.hpp"

using namespace toposeat;
using namespace toposeat::testing;

namespace {

constexpr double no_bound = 0;
constexpr std::uint64_t all_nodes = 1'000'000;

/// A grid whose routes go along rows first: symmetric, but where links differ.
Network grid(std::uint32_t rows, std::uint32_t columns, Rng &rng) {
  NetworkBuilder builder(rows * columns);
  const bool alike = rng.below(2) == 0;
  const auto capacity = [&] { return alike ? 20.0 : 10.0 * (1 + rng.below(3)); };
  const auto link = [&] {
    const double both = rng.below(4) == 0 ? 25.0 : unlimited;
    builder.link(capacity(), capacity(), alike ? unlimited : both);
  };
  for (std::uint32_t i = 0; i < 2 * rows * columns; ++i)
    link(); // of device d: 2 d to the next column, 2 d + 1 to the next row
  for (std::uint32_t a = 0; a < rows * columns; ++a) {
    for (std::uint32_t b = 0; b < rows * columns; ++b) {
      std::vector<LinkUse> uses;
      std::uint32_t here = a;
      for (; here % columns < b % columns; ++here)
        uses.push_back({2 * here, false});
      for (; here % columns > b % columns; --here)
        uses.push_back({2 * (here - 1), true});
      for (; here < b; here += columns)
        uses.push_back({2 * here + 1, false});
      for (; here > b; here -= columns)
        uses.push_back({2 * (here - columns) + 1, true});
      const double cap = rng.below(10) == 0 ? 8.0 : unlimited;
      const double latency = 0.1 * static_cast<double>(uses.size());
      if (a != b)
        builder.route(a, b, uses, alike ? unlimited : cap, latency);
    }
  }
  return builder.build();
}

RankTraffic random_traffic(std::uint32_t ranks, Rng &rng) {
  std::vector<Flow> flows;
  const std::uint32_t sizes = 1 + rng.below(4);
  const bool whole = rng.below(2) == 0;
  for (std::uint32_t a = 0; a < ranks; ++a) {
    for (std::uint32_t b = 0; b < ranks; ++b) {
      if (a == b || rng.below(5) < 2)
        continue;
      const double bytes = whole ? 10.0 * rng.below(sizes + 1) : rng.unit();
      flows.push_back({a, b, bytes, 1.0 + rng.below(2)});
    }
  }
  return traffic_of(ranks, flows);
}

struct Case {
  Network network;
  RankTraffic traffic;
  std::vector<std::uint32_t> pinned;
  DeviceSets allowed;
  LoadProblem problem{network, traffic, pinned, allowed};

  Case(Network machine, RankTraffic what, Rng &rng)
      : network(std::move(machine)), traffic(std::move(what)),
        pinned(network.devices, Qap::no_pin) {
    const std::uint32_t kind = rng.below(4);
    if (kind == 0)
      pinned[rng.below(traffic.ranks)] = rng.below(network.devices);
    if (kind == 1) {
      allowed = DeviceSets(network.devices, network.devices);
      for (std::uint32_t d = 0; d + 2 < network.devices; ++d)
        allowed.forbid(rng.below(traffic.ranks), d);
    }
  }
  Case(const Case &) = delete;
  Case &operator=(const Case &) = delete;

  [[nodiscard]] double seconds(const Assignment &placement, bool timed) const {
    return timed ? flow_time(network, traffic, placement)
                 : congestion(network, traffic, placement).max_s;
  }

  [[nodiscard]] bool permitted(const Assignment &placement) const {
    for (std::uint32_t r = 0; r < placement.size(); ++r) {
      if (!problem.may_use(r, placement[r]))
        return false;
    }
    return true;
  }

  /// All that the constraints permit, the first ranks of each order of the devices.
  [[nodiscard]] std::vector<Assignment> placements() const {
    std::vector<Assignment> all;
    Assignment order = in_order(network.devices);
    do {
      const Assignment placement(order.begin(), order.begin() + traffic.ranks);
      if ((all.empty() || placement != all.back()) && permitted(placement))
        all.push_back(placement);
      std::reverse(order.begin() + traffic.ranks, order.end());
    } while (std::next_permutation(order.begin(), order.end()));
    return all;
  }
};

Deadline long_enough() { return Deadline::in(60); }

} // namespace

TEST_CASE("what limits prove is the least of all placements") {
  Rng rng(11);
  for (int round = 0; round < 60; ++round) {
    const std::uint32_t columns = 2 + rng.below(2);
    const std::uint32_t ranks = 2 * columns - rng.below(3);
    const Case each(grid(2, columns, rng), random_traffic(ranks, rng), rng);
    const std::vector<Assignment> all = each.placements();
    REQUIRE_FALSE(all.empty());
    for (const bool timed : {false, true}) {
      double least = unlimited;
      for (const Assignment &placement : all)
        least = std::min(least, each.seconds(placement, timed));
      const BoundedAnswer answer = prove_by_limits(each.problem, timed, all.front(), no_bound,
                                                   all_nodes, true, long_enough());
      INFO("round " << round << (timed ? " time" : " congestion"));
      CHECK(answer.proved);
      CHECK(answer.value == Approx(least).epsilon(1e-12));
      CHECK(answer.value == each.seconds(answer.placement, timed));
      CHECK(each.permitted(answer.placement));
    }
  }
}

TEST_CASE("a search within limits meets every value below") {
  Rng rng(5);
  for (int round = 0; round < 20; ++round) {
    const Case each(grid(2, 3, rng), random_traffic(6, rng), rng);
    std::vector<double> values;
    for (const Assignment &placement : each.placements())
      values.push_back(each.seconds(placement, false));
    std::sort(values.begin(), values.end());
    const double limit = values[values.size() / 20] * (1 + 1e-6);
    std::vector<double> met;
    LimitSearch search(each.problem, false);
    REQUIRE(search.run(limit, long_enough(), [&](const Assignment &placement) {
      met.push_back(each.seconds(placement, false));
      return limit;
    }));
    for (const double value : values) {
      if (value < limit * (1 - 1e-6))
        CHECK(std::any_of(met.begin(), met.end(),
                          [&](double other) { return other == Approx(value).epsilon(1e-9); }));
    }
  }
}

TEST_CASE("placements as good as the limit are none below it, of flows of megabytes") {
  Rng rng(9);
  constexpr std::uint32_t devices = 6;
  NetworkBuilder builder(devices);
  for (std::uint32_t d = 0; d < devices; ++d)
    builder.link(1e9, 1e9); // nothing but its port: all placements are as good
  for (std::uint32_t a = 0; a < devices; ++a) {
    for (std::uint32_t b = 0; b < devices; ++b) {
      if (a != b)
        builder.route(a, b, {{a, false}, {b, true}}, unlimited, 0.1 * (a + b)); // no symmetry
    }
  }
  std::vector<Flow> flows;
  for (std::uint32_t a = 0; a < devices; ++a) {
    for (std::uint32_t b = 0; b < devices; ++b) {
      if (a != b)
        flows.push_back({a, b, 4'000'001.0 + rng.below(4'000'000), 1});
    }
  }
  const Network network = builder.build();
  const RankTraffic traffic = traffic_of(devices, flows);
  const std::vector<std::uint32_t> pinned(devices, Qap::no_pin);
  const DeviceSets allowed;
  const LoadProblem problem{network, traffic, pinned, allowed};
  const double limit = congestion(network, traffic, in_order(devices)).max_s;
  std::uint64_t visits = 0;
  LimitSearch search(problem, false);
  CHECK(search.run(limit, long_enough(), [&](const Assignment &) {
    ++visits;
    return limit;
  }));
  CHECK(visits == 0);
  CHECK(search.run(limit * (1 + 1e-6), long_enough(), [&](const Assignment &) {
    ++visits;
    return visits < 10 ? unlimited : limit; // a limit that is lowered on the way
  }));
  CHECK(visits == 10);
}

TEST_CASE("an unfinished proof keeps a bound that holds") {
  Rng rng(3);
  for (int round = 0; round < 5; ++round) {
    const Case each(grid(4, 4, rng), random_traffic(16, rng), rng);
    Assignment start = in_order(16);
    for (std::uint32_t r = 0; r < 16 && !each.permitted(start); ++r) {
      for (std::uint32_t s = 0; s < 16 && !each.problem.may_use(r, start[r]); ++s)
        std::swap(start[r], start[s]);
    }
    const BoundedAnswer answer =
        prove_by_limits(each.problem, true, start, no_bound, 100, true, Deadline::in(0.02));
    CHECK(answer.lower_bound <= answer.value);
    CHECK(answer.value == each.seconds(answer.placement, true));
    CHECK(answer.value <= each.seconds(start, true));
  }
}

TEST_CASE("lines are narrowed as their definition says") {
  Rng rng(7);
  constexpr std::size_t stride = 3 * limit_lanes;
  constexpr std::size_t devices = 16;
  for (int round = 0; round < 50; ++round) {
    WholeLines here(devices * stride), leaving(devices * stride), entering(devices * stride);
    WholeLines room(stride);
    for (std::size_t i = 0; i < devices * stride; ++i) {
      here.data()[i] = static_cast<std::int32_t>(rng.below(30));
      leaving.data()[i] = static_cast<std::int32_t>(rng.below(2));
      entering.data()[i] = static_cast<std::int32_t>(rng.below(2));
    }
    for (std::size_t t = 0; t < stride; ++t)
      room.data()[t] = static_cast<std::int32_t>(30 + rng.below(100));
    const std::uint32_t set = rng.below(1U << devices);
    const LimitStep step{here.data(),
                         leaving.data(),
                         entering.data(),
                         static_cast<std::int32_t>(rng.below(9)),
                         static_cast<std::int32_t>(rng.below(9)),
                         room.data(),
                         stride};
    WholeLines next(devices * stride), least(stride), again(stride), left(room);
    const std::uint32_t fits = narrow_lines(step, set, next.data(), least.data());
    CHECK(lines_with_room(next.data(), set, room.data(), stride, again.data()) == fits);
    CHECK(std::equal(least.data(), least.data() + stride, again.data()));
    if (fits != 0)
      CHECK(take_room(left.data(), least.data(), 1, stride));
    CHECK_FALSE(take_room(left.data(), room.data(), 2, stride));
    std::vector<std::int32_t> lowest(stride, std::numeric_limits<std::int32_t>::max());
    for (std::uint32_t d = 0; d < devices; ++d) {
      bool over = (set >> d & 1U) == 0;
      std::vector<std::int32_t> line;
      for (std::size_t t = 0; t < stride; ++t) {
        const std::size_t i = d * stride + t;
        line.push_back(here.data()[i] + step.received * leaving.data()[i] +
                       step.sent * entering.data()[i]);
        over = over || line.back() > room.data()[t];
      }
      CHECK((fits >> d & 1U) == (over ? 0U : 1U));
      for (std::size_t t = 0; t < stride && !over; ++t)
        lowest[t] = std::min(lowest[t], line[t]);
    }
    CHECK(std::equal(lowest.begin(), lowest.end(), least.data()));
  }
}
