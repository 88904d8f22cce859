// Few flows, whose sets are bits, against the filling of any number of flows: a schedule of one
// phase without barriers is the same phase, and is always walked by the latter.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <random>
#include <vector>

#include "catch.hpp"
#include "network_builder.hpp"
#include "toposeat/flow/flow.hpp"
#include "toposeat/flow/schedule.hpp"

using namespace toposeat;
using namespace toposeat::testing;

namespace {

/// What a random machine and its traffic are like.
struct Kind {
  std::uint32_t ranks;
  std::uint32_t percent; // of the pairs that send
  std::uint32_t caps;    // different ones
  std::uint32_t sizes;   // different numbers of bytes
  bool repeats = false;  // routes may use a link in both directions
  bool pair_limits = false;
};

class Problem {
public:
  Problem(const Kind &kind, std::uint32_t seed) : random_(seed) {
    NetworkBuilder builder(kind.ranks);
    const std::uint32_t links = kind.ranks + below(2 * kind.ranks);
    for (std::uint32_t i = 0; i < links; ++i)
      builder.link(capacity(), capacity(), below(3) == 0 ? capacity() : unlimited);
    traffic.ranks = kind.ranks;
    for (std::uint32_t i = 0; i < kind.ranks; ++i) {
      for (std::uint32_t j = 0; j < kind.ranks; ++j) {
        if (i == j)
          continue;
        const double cap = below(3) == 0 ? unlimited : 10.0 + 7 * below(kind.caps);
        builder.route(i, j, route(links, kind.repeats), cap, 0.5 * below(4));
        if (below(100) < kind.percent)
          traffic.flows.push_back({i, j, 64.0 * below(kind.sizes + 1), 1.0 + below(2)});
      }
    }
    network = builder.build();
    if (kind.pair_limits)
      add_pair_limits();
    traffic.validate();
  }

  Network network;
  RankTraffic traffic;

private:
  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }
  double capacity() { return below(12) == 0 ? unlimited : 20.0 * (1 + below(6)); }

  std::vector<LinkUse> route(std::uint32_t links, bool repeats) {
    std::vector<LinkUse> uses;
    for (std::uint32_t length = below(6); length > 0; --length) {
      const LinkUse use{below(links), below(2) == 0};
      const auto same = [&](const LinkUse &each) { return each.link == use.link; };
      if (repeats || std::none_of(uses.begin(), uses.end(), same))
        uses.push_back(use);
    }
    return uses;
  }

  /// One for both directions of some pairs.
  void add_pair_limits() {
    const std::uint32_t devices = network.devices;
    network.limit_of_pair.assign(std::size_t{devices} * devices, none_of_pair);
    for (std::uint32_t i = 0; i < devices; ++i) {
      for (std::uint32_t j = 0; j < i; ++j) {
        if (below(2) == 0)
          continue;
        const auto number = static_cast<std::int32_t>(network.pair_limits.size());
        network.limit_of_pair[i * devices + j] = number;
        network.limit_of_pair[j * devices + i] = number;
        network.pair_limits.push_back(15.0 * (1 + below(4)));
      }
    }
    network.validate();
  }

  std::mt19937 random_;
};

} // namespace

TEST_CASE("few flows have the rates of any flows", "[flow]") {
  const Kind kind = GENERATE(Kind{6, 60, 2, 2}, Kind{9, 80, 3, 1000}, Kind{9, 60, 1000, 3},
                             Kind{11, 100, 4, 2}, Kind{15, 100, 1000, 4}, Kind{16, 100, 3, 1000},
                             Kind{8, 90, 3, 4, true}, Kind{8, 90, 3, 4, false, true});
  const std::uint32_t rounds = 5000 / (kind.ranks * kind.ranks);
  for (std::uint32_t seed = 1; seed <= rounds; ++seed) {
    const Problem problem(kind, seed);
    FlowModel model(problem.network, problem.traffic);
    Assignment order = in_order(kind.ranks);
    for (int turn = 0; turn < 3; ++turn) {
      const double few = model.seconds(order);
      const double any =
          schedule_times(problem.network, {{problem.traffic}, 1}, order, false).seconds;
      INFO("ranks " << kind.ranks << ", seed " << seed << ", turn " << turn);
      CHECK(few == Approx(any).epsilon(1e-12).margin(0));
      CHECK(model.times(order).seconds == few);
      for (const double limit : {0.3, 0.6, 0.9, 0.99, 0.9999, 1.0, 1.0001}) {
        INFO("limit " << limit);
        const double found = model.seconds(order, limit * few);
        CHECK((limit < 1 && few > 0 ? limit * few < found && found <= few : found == few));
      }
      std::rotate(order.begin(), order.begin() + 1, order.end());
    }
  }
}
