// The time of a phase against the definition in toposeat/flow/flow.hpp, all rates computed anew at
// every event, and against a schedule of that one phase; and what is said when a timing gives up.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <random>
#include <vector>

#include "catch.hpp"
#include "small_machines.hpp"
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

/// A phase as toposeat/flow/flow.hpp defines it: nothing is kept from one event to the next.
class PlainPhase {
public:
  PlainPhase(const Problem &problem, const Assignment &device_of_rank) {
    const Network &network = problem.network;
    for (const LinkCapacity &link : network.links)
      capacity_.insert(capacity_.end(), {link.forward, link.backward, link.combined});
    capacity_.insert(capacity_.end(), network.pair_limits.begin(), network.pair_limits.end());
    for (const Flow &flow : problem.traffic.flows) {
      const std::uint32_t from = device_of_rank[flow.source];
      const std::uint32_t to = device_of_rank[flow.target];
      const std::size_t pair = std::size_t{from} * network.devices + to;
      Transfer transfer{{}, flow.bytes, flow.messages * network.latency[pair], network.cap[pair]};
      for (const LinkUse &use : network.route(from, to)) {
        transfer.uses.push_back(3 * use.link + (use.reverse ? 1U : 0U));
        transfer.uses.push_back(3 * use.link + 2);
      }
      if (const std::int32_t limit = network.limit(pair); limit != none_of_pair)
        transfer.uses.push_back(3 * network.links.size() + static_cast<std::size_t>(limit));
      transfers_.push_back(std::move(transfer));
    }
  }

  double seconds() {
    double now = 0;
    for (double next = 0; next < unlimited;) {
      now = next;
      share(now);
      next = unlimited;
      for (const Transfer &each : transfers_) {
        if (each.moves(now))
          next = std::min(next, now + each.bytes / each.rate);
        else if (each.start > now)
          next = std::min(next, each.start);
      }
      for (Transfer &each : transfers_) {
        if (each.moves(now) && now + each.bytes / each.rate <= next * near)
          each.bytes = 0;
        else if (each.moves(now))
          each.bytes -= (next - now) * each.rate;
      }
    }
    return now;
  }

private:
  static constexpr double near = 1 + 1e-12;

  struct Transfer {
    std::vector<std::size_t> uses; // capacities, as often as its route does
    double bytes;                  // still to come
    double start;
    double cap;
    double rate = 0;

    [[nodiscard]] bool moves(double now) const { return bytes > 0 && start <= now * near; }
  };

  /// Progressive filling for those that move.
  void share(double now) {
    std::vector<Transfer *> growing;
    for (Transfer &each : transfers_) {
      if (each.moves(now))
        growing.push_back(&each);
    }
    std::vector<double> left = capacity_;
    while (!growing.empty()) {
      std::vector<double> users(left.size(), 0);
      double level = unlimited;
      for (const Transfer *each : growing) {
        level = std::min(level, each->cap);
        for (const std::size_t c : each->uses)
          ++users[c];
      }
      for (std::size_t c = 0; c < left.size(); ++c)
        level = users[c] > 0 ? std::min(level, left[c] / users[c]) : level;
      const auto stops = [&](const Transfer *each) {
        return each->cap <= level * near ||
               std::any_of(each->uses.begin(), each->uses.end(),
                           [&](std::size_t c) { return left[c] <= users[c] * level * near; });
      };
      const auto first_stopped = std::partition(growing.begin(), growing.end(),
                                                [&](const Transfer *each) { return !stops(each); });
      for (auto each = first_stopped; each != growing.end(); ++each)
        (*each)->rate = level;
      for (auto each = first_stopped; each != growing.end(); ++each) {
        for (const std::size_t c : (*each)->uses)
          left[c] -= level;
      }
      growing.erase(first_stopped, growing.end());
    }
  }

  std::vector<double> capacity_; // of links: forward, backward, both; then of pairs
  std::vector<Transfer> transfers_;
};

} // namespace

TEST_CASE("a phase takes as long as the model says, and gives up late enough", "[flow]") {
  const Kind kind = GENERATE(Kind{6, 60, 2, 2}, Kind{9, 80, 3, 1000}, Kind{9, 60, 1000, 3},
                             Kind{11, 100, 4, 2}, Kind{15, 100, 1000, 4}, Kind{16, 100, 3, 1000},
                             Kind{8, 90, 3, 4, true}, Kind{8, 90, 3, 4, false, true});
  const std::uint32_t rounds = 5000 / (kind.ranks * kind.ranks);
  for (std::uint32_t seed = 1; seed <= rounds; ++seed) {
    const Problem problem(kind, seed);
    FlowModel model(problem.network, problem.traffic);
    Assignment order = in_order(kind.ranks);
    for (int turn = 0; turn < 3; ++turn) {
      const double whole = model.seconds(order);
      const double scheduled =
          schedule_times(problem.network, {{problem.traffic}, 1}, order, false).seconds;
      INFO("ranks " << kind.ranks << ", seed " << seed << ", turn " << turn);
      CHECK(whole == Approx(PlainPhase(problem, order).seconds()).epsilon(1e-9).margin(0));
      CHECK(whole == Approx(scheduled).epsilon(1e-12).margin(0));
      CHECK(model.times(order).seconds == whole);
      for (const double limit : {0.3, 0.6, 0.9, 0.99, 0.9999, 1.0, 1.0001}) {
        INFO("limit " << limit);
        const double found = model.seconds(order, limit * whole);
        CHECK((limit < 1 && whole > 0 ? limit * whole < found && found <= whole : found == whole));
      }
      std::rotate(order.begin(), order.begin() + 1, order.end());
    }
  }
}
