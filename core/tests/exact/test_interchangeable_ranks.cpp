// Ranks that symmetries of the traffic exchange, against all permutations of the ranks.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <vector>

#include "base/rng.hpp"
#include "catch.hpp"
#include "exact/interchangeable_ranks.hpp"
#include "exact/limit_proof.hpp"
#include "exact/limit_search.hpp"
#include "small_machines.hpp"
#include "toposeat/problem/congestion.hpp"

using namespace toposeat;
using namespace toposeat::testing;

namespace {

using Order = std::vector<std::uint32_t>;

/// Ring of devices with a link to either neighbour; the short way round, clockwise from opposite.
Network ring(std::uint32_t devices) {
  NetworkBuilder builder(devices);
  for (std::uint32_t d = 0; d < devices; ++d)
    builder.link(10, 10); // from d to d + 1
  for (std::uint32_t a = 0; a < devices; ++a) {
    for (std::uint32_t b = 0; b < devices; ++b) {
      const std::uint32_t ahead = (b + devices - a) % devices;
      std::vector<LinkUse> uses;
      if (ahead <= devices / 2) {
        for (std::uint32_t i = 0; i < ahead; ++i)
          uses.push_back({(a + i) % devices, false});
      } else {
        for (std::uint32_t i = 0; i < devices - ahead; ++i)
          uses.push_back({(a + devices - 1 - i) % devices, true});
      }
      if (a != b)
        builder.route(a, b, uses);
    }
  }
  return builder.build();
}

/// Symmetric patterns, with now and then something that spoils some of the symmetries.
RankTraffic pattern(std::uint32_t ranks, std::uint32_t talking, Rng &rng) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, Flow> flows;
  const auto add = [&](std::uint32_t a, std::uint32_t b, double bytes, double messages) {
    if (a != b && a < talking && b < talking)
      flows[{a, b}] = {a, b, bytes, messages};
  };
  const std::uint32_t kind = rng.below(4);
  for (std::uint32_t a = 0; a < talking; ++a) {
    for (std::uint32_t b = 0; b < talking; ++b) {
      const bool beside = (a + 1) % talking == b;
      if (kind == 0 || (kind == 1 && beside) || (kind == 2 && a / 2 == b / 2) ||
          (kind == 3 && (a == 0 || b == 0)))
        add(a, b, 6, 2);
    }
  }
  for (std::uint32_t spoilt = rng.below(3); spoilt > 0; --spoilt)
    add(rng.below(talking), rng.below(talking), rng.below(2) == 0 ? 6 : 9, 1 + rng.below(2));
  std::vector<Flow> all;
  for (const auto &[pair, flow] : flows)
    all.push_back(flow);
  if (!all.empty() && rng.below(3) == 0)
    all[rng.below(static_cast<std::uint32_t>(all.size()))].rounds = 1;
  return traffic_of(ranks, all);
}

/// Whether exchanging ranks so leaves bytes, messages and rounds as they are.
bool is_symmetry(const RankTraffic &traffic, const Order &image) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::tuple<double, double, double>> sent;
  for (const Flow &flow : traffic.flows)
    sent[{flow.source, flow.target}] = {flow.bytes, flow.messages, flow.rounds};
  return std::all_of(traffic.flows.begin(), traffic.flows.end(), [&](const Flow &flow) {
    const auto at = sent.find({image[flow.source], image[flow.target]});
    return at != sent.end() && at->second == std::tuple(flow.bytes, flow.messages, flow.rounds);
  });
}

/// As `later_interchangeable` is documented, for a job without restrictions.
std::vector<std::uint32_t> interchangeable_of(const RankTraffic &traffic, const Order &order,
                                              std::size_t talking) {
  std::vector<std::uint32_t> interchangeable(order.size(), 0);
  Order image(traffic.ranks);
  std::iota(image.begin(), image.end(), 0U);
  do {
    if (!is_symmetry(traffic, image))
      continue;
    std::size_t fixed = 0;
    while (fixed < order.size() && image[order[fixed]] == order[fixed])
      ++fixed;
    if (fixed == order.size())
      continue;
    const auto place = std::find(order.begin(), order.end(), image[order[fixed]]) - order.begin();
    interchangeable[fixed] |= 1U << place;
  } while (std::next_permutation(image.begin(), image.end()));
  for (std::size_t p = talking; p < order.size(); ++p) // idle ones, whatever is before
    interchangeable[p] = ((1U << order.size()) - 1) & ~((2U << p) - 1);
  return interchangeable;
}

} // namespace

TEST_CASE(
    "interchangeable ranks are those that some symmetry exchanges while it fixes those before",
    "[loads]") {
  Rng rng(61);
  const Network network = ring(6);
  for (int repetition = 0; repetition < 30; ++repetition) {
    const std::uint32_t talking = 3 + rng.below(4);
    const RankTraffic traffic = pattern(6, talking, rng);
    std::vector<std::uint32_t> pinned(6, Qap::no_pin);
    const LoadProblem problem{network, traffic, pinned};
    const std::size_t talks = branching_order(problem).size();
    Order order = branching_order(problem);
    for (std::uint32_t r = 0; r < 6; ++r) {
      if (std::find(order.begin(), order.end(), r) == order.end())
        order.push_back(r);
    }
    CHECK(later_interchangeable(problem, order, talks) ==
          interchangeable_of(traffic, order, talks));
    // Who is restricted has no twin: only those who are idle do.
    pinned[order[rng.below(talks)]] = rng.below(6);
    std::vector<std::uint32_t> idle = interchangeable_of(traffic, order, talks);
    std::fill_n(idle.begin(), talks, 0U);
    CHECK(later_interchangeable(problem, order, talks) == idle);
  }
}

TEST_CASE("symmetric traffic on a symmetric machine: nothing is missed", "[loads]") {
  Rng rng(62);
  const Network network = ring(6);
  for (int repetition = 0; repetition < 12; ++repetition) {
    const RankTraffic traffic = pattern(6, 4 + rng.below(3), rng);
    std::vector<std::uint32_t> pinned(6, Qap::no_pin);
    if (repetition % 3 == 0)
      pinned[rng.below(6)] = rng.below(6);
    const LoadProblem problem{network, traffic, pinned};
    Assignment home;
    double max_s = unlimited;
    Assignment all = in_order(6);
    do {
      bool kept = true;
      for (std::size_t r = 0; r < 6; ++r)
        kept = kept && problem.may_use(r, all[r]);
      if (!kept)
        continue;
      if (home.empty())
        home = all;
      max_s = std::min(max_s, congestion(network, traffic, all).max_s);
    } while (std::next_permutation(all.begin(), all.end()));
    const BoundedAnswer found =
        prove_by_limits(problem, false, home, 0, std::uint64_t{1} << 40U, true, Deadline::in(60));
    CHECK(found.proved);
    CHECK(found.value == Approx(max_s));
    CHECK(congestion(network, traffic, found.placement).max_s == Approx(max_s));
  }
}
