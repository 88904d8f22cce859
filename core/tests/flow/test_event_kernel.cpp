// The kernels of all kinds of processors that this one can run, against each other, bit by bit.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <vector>

#include "base/lanes.hpp"
#include "catch.hpp"
#include "flow/event_kernel.hpp"
#include "toposeat/base/rng.hpp"
#include "toposeat/problem/network.hpp"

using namespace toposeat;

namespace {

/// Random users and capacities, and a few bounds; everything that a kernel writes is its own.
template <std::size_t Words> struct Problem {
  using Set = FlowSet<Words>;

  explicit Problem(std::uint64_t seed)
      : random(seed), columns(most_lanes * (1 + random.below(4))),
        flows(1 + random.below(static_cast<std::uint32_t>(Set::most))) {
    users.fit(columns * Words);
    left.fit(columns * (flows + 1));
    for (auto *each : {&growing, &shares, &ends, &paces})
      each->fit(columns);
    for (auto *each : {&rates, &remaining, &since, &rate, &until, &paces_alone})
      each->fit(Set::most);
    std::fill_n(until.data(), Set::most, unlimited);
    rounds.resize(flows + 1);
    for (std::size_t c = 0; c < columns; ++c) {
      left[c] = 10.0 + random.below(50);
      paces[c] = 1 / left[c];
      ends[c] = 0.1 * random.below(20);
    }
    for (std::uint32_t f = 0; f < flows; ++f)
      add_flow(f);
    for (int k = 1; k < 4; ++k)
      kinds.push_back({k * 0.7, {}});
    for (std::uint32_t f = 0; f < flows; ++f) {
      if (random.below(5) == 0)
        kinds[random.below(3)].flows.insert(f);
    }
  }

  /// Fills, lets the first flows finish, and fills again; everything that came of it.
  std::vector<double> outcome(const EventKernel<Words> &kernel) {
    std::vector<double> result;
    const auto keep = [&](const NextFinish<Words> &next) {
      result.insert(result.end(), {next.at, static_cast<double>(next.rounds)});
      next.flows.for_each([&](std::uint32_t flow) { result.push_back(flow); });
      result.insert(result.end(), rates.data(), rates.data() + flows);
      result.insert(result.end(), remaining.data(), remaining.data() + flows);
      result.insert(result.end(), left.data(), left.data() + columns * next.rounds);
    };
    const NextFinish<Words> first = kernel.step(state(), running, 0, motions(), 0.5, unlimited);
    keep(first);
    first.flows.for_each([&](std::uint32_t flow) { until[flow] = unlimited; });
    const Set rest = running.without(first.flows);
    kernel.settle(state(), first.rounds);
    const auto kept = kernel.unchanged(state(), rest | some, some, first.rounds);
    result.push_back(static_cast<double>(kept));
    const Set still = rest.without(rounds[kept].frozen_before);
    keep(kernel.step(state(), still, kept, motions(), first.at, unlimited));
    result.push_back(kernel.put_off(state(), kept, 0.3, 1.5));
    result.push_back(kernel.put_off(state(), 0, 0.2, 2.5));
    result.insert(result.end(), ends.data(), ends.data() + columns);
    result.push_back(kernel.end_alone(motions(), first.at + 1));
    kernel.not_later(remaining.data(), flows, 40).for_each([&](std::uint32_t flow) {
      result.push_back(flow);
    });
    return result;
  }

private:
  void add_flow(std::uint32_t flow) {
    running.insert(flow);
    if (random.below(9) == 0)
      some.insert(flow);
    remaining[flow] = 1.0 + random.below(99);
    paces_alone[flow] = 0.1 * random.below(5);
    for (int uses = 0; uses < 3; ++uses) {
      const std::size_t column = random.below(static_cast<std::uint32_t>(columns));
      users[flow / 64 * columns + column] |= std::uint64_t{1} << flow % 64;
    }
  }

  FillState<Words> state() {
    FillState<Words> result;
    result.columns = columns;
    for (std::size_t w = 0; w < Words; ++w)
      result.users[w] = users.data() + w * columns;
    result.left = left.data();
    result.growing = growing.data();
    result.shares = shares.data();
    result.ends = ends.data();
    result.paces = paces.data();
    result.kinds = kinds.data();
    result.kind_count = kinds.size();
    result.rounds = rounds.data();
    result.rates = rates.data();
    return result;
  }

  Motions motions() {
    return {flows, remaining.data(), since.data(), rate.data(), until.data(), paces_alone.data()};
  }

  Rng random;
  std::size_t columns;
  std::uint32_t flows;
  LaneArray<std::uint64_t> users;
  LaneArray<double> left, growing, shares, rates, remaining, since, rate, until, ends, paces,
      paces_alone;
  std::vector<BoundKind<Words>> kinds;
  std::vector<FillRound<Words>> rounds;
  Set running, some;
};

template <std::size_t Words> void check_all_kernels() {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const auto kernels = event_kernels<Words>();
    const std::vector<double> expected = Problem<Words>(seed).outcome(*kernels.back());
    for (const EventKernel<Words> *kernel : kernels) {
      INFO("words " << Words << ", seed " << seed);
      CHECK(Problem<Words>(seed).outcome(*kernel) == expected);
    }
  }
}

} // namespace

TEST_CASE("every kind of processor computes the same events", "[flow]") {
  check_all_kernels<1>();
  check_all_kernels<2>();
  check_all_kernels<4>();
}
