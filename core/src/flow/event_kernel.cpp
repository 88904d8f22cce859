// SPDX-License-Identifier: MIT OR Apache-2.0
#include "flow/event_kernel.hpp"

#include <algorithm>
#include <limits>

#include "base/lanes.hpp"
#include "flow/fill_rounds.hpp"
#include "flow/running_flows.hpp"

namespace toposeat {
namespace {

using L = Lanes;
using Doubles = L::Doubles;

/// From `now` on the flows have these rates. Returns when the first of them finishes.
TOPOSEAT_INLINE double follow(const Motions &motions, const double *rates, double now) {
  const Motions of = motions; // or the compiler would expect what is stored to change it
  Doubles least = L::all(std::numeric_limits<double>::infinity());
  for (std::size_t f = 0; f < of.flows; f += L::count) {
    const Doubles rate = L::load(rates + f);
    const Doubles old_rate = L::load(of.rate + f);
    const Doubles since = L::load(of.since + f);
    const Doubles remaining = L::load(of.remaining + f);
    const Doubles rest = remaining - (now - since) * old_rate;
    const Doubles left = rest > 0 ? rest : L::all(0.0);
    const auto same = rate == old_rate;
    const Doubles until = same ? L::load(of.until + f) : now + left / rate;
    L::store(of.remaining + f, same ? remaining : left);
    L::store(of.since + f, same ? since : L::all(now));
    L::store(of.rate + f, rate);
    L::store(of.until + f, until);
    least = L::less(until, least);
  }
  return L::least_of(least)[0];
}

template <std::size_t WordCount>
TOPOSEAT_INLINE FlowSet<WordCount> flows_not_later(const double *times, std::size_t flows,
                                                   double limit) {
  using Set = FlowSet<WordCount>;
  Set result;
  for (std::size_t w = 0; w < WordCount && w * Set::bits < flows; ++w) {
    L::Words found = {};
    L::Words bits = L::own_bits();
    for (std::size_t k = 0; k < Set::bits; k += L::count, bits <<= L::count) {
      const Doubles some = L::load(times + w * Set::bits + k);
      found |= ~reinterpret_cast<L::Words>(some > L::all(limit)) & bits;
    }
    result.words[w] = L::any_of(found)[0];
  }
  return result;
}

} // namespace

template <std::size_t Words>
TOPOSEAT_WIDE NextFinish<Words> EventKernel<Words>::step(const State &state, const Set &growing,
                                                         std::size_t first, const Motions &motions,
                                                         double now, double next_start) {
  NextFinish<Words> next;
  next.rounds = FillRounds<Words>::fill(state, growing, first);
  next.at = std::max(now, follow(motions, state.rates, now));
  if (next.at <= next_start)
    next.flows = flows_not_later<Words>(motions.until, motions.flows, next.at * same_time);
  return next;
}

template <std::size_t Words>
TOPOSEAT_WIDE void EventKernel<Words>::settle(const State &state, std::size_t rounds) {
  FillRounds<Words>::settle(state, rounds);
}

template <std::size_t Words>
TOPOSEAT_WIDE double EventKernel<Words>::put_off(const State &state, std::size_t round,
                                                 double level, double seconds) {
  return FillRounds<Words>::put_off(state, round, level, seconds);
}

template <std::size_t Words>
TOPOSEAT_WIDE double EventKernel<Words>::end_alone(const Motions &motions, double now) {
  Doubles latest = L::all(0.0);
  for (std::size_t f = 0; f < motions.flows; f += L::count) {
    const Doubles moved = (now - L::load(motions.since + f)) * L::load(motions.rate + f);
    const Doubles rest = L::load(motions.remaining + f) - moved;
    const Doubles end = now + rest * L::load(motions.paces + f);
    latest = latest < end ? end : latest;
  }
  return -L::least_of(-latest)[0];
}

template <std::size_t Words>
TOPOSEAT_WIDE std::size_t EventKernel<Words>::unchanged(const State &state, const Set &running,
                                                        const Set &started, std::size_t rounds) {
  return FillRounds<Words>::unchanged(state, running, started, rounds);
}

template <std::size_t Words>
TOPOSEAT_WIDE FlowSet<Words> EventKernel<Words>::not_later(const double *times, std::size_t flows,
                                                           double limit) {
  return flows_not_later<Words>(times, flows, limit);
}

template struct EventKernel<1>;
template struct EventKernel<2>;
template struct EventKernel<4>;

} // namespace toposeat
