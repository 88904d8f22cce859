// How far the flows that move bytes come; for vectors of one kind of processor.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <limits>

#include "base/wide.hpp"
#include "flow/event_kernel.hpp"

namespace toposeat {

/// Everything is inlined where the processor is known; `L` is one of Lanes.
template <std::size_t WordCount, class L> struct MotionLanes {
  using Doubles = typename L::Doubles;
  using Words = typename L::Words;
  using Set = FlowSet<WordCount>;

  /// From `now` on the flows have these rates. Returns when the first of them finishes.
  static TOPOSEAT_INLINE double follow(const Motions &motions, const double *rates, double now) {
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

  /// See EventKernel.
  static TOPOSEAT_INLINE double end_alone(const Motions &motions, double now) {
    Doubles latest = L::all(0.0);
    for (std::size_t f = 0; f < motions.flows; f += L::count) {
      const Doubles moved = (now - L::load(motions.since + f)) * L::load(motions.rate + f);
      const Doubles rest = L::load(motions.remaining + f) - moved;
      const Doubles end = now + rest * L::load(motions.paces + f);
      latest = latest < end ? end : latest;
    }
    return -L::least_of(-latest)[0];
  }

  /// See EventKernel.
  static TOPOSEAT_INLINE Set not_later(const double *times, std::size_t flows, double limit) {
    Set result;
    for (std::size_t w = 0; w < WordCount && w * Set::bits < flows; ++w) {
      Words found = {};
      Words bits = L::own_bits();
      for (std::size_t k = 0; k < Set::bits; k += L::count, bits <<= L::count) {
        const Doubles some = L::load(times + w * Set::bits + k);
        found |= ~reinterpret_cast<Words>(some > L::all(limit)) & bits;
      }
      result.words[w] = L::any_of(found)[0];
    }
    return result;
  }
};

} // namespace toposeat
