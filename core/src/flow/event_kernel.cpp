// SPDX-License-Identifier: MIT OR Apache-2.0
#include "flow/event_kernel.hpp"

#include <algorithm>
#include <limits>

#include "base/lanes.hpp"
#include "flow/phase_walk.hpp"
#include "flow/running_flows.hpp"

namespace toposeat {
/// What leads from one round to the next stays in vectors, with the same in every lane: moving it
/// there and back would take as long as the rest.
template <std::size_t WordCount> class FillRounds {
  using L = Lanes;
  using Doubles = L::Doubles;
  using Words = L::Words;
  using Set = FlowSet<WordCount>;
  using State = FillState<WordCount>;

  /// A set of flows in every lane.
  struct Everywhere {
    Words words[WordCount];

    explicit TOPOSEAT_INLINE Everywhere(const Set &flows) {
      for (std::size_t w = 0; w < WordCount; ++w)
        words[w] = L::all(flows.words[w]);
    }
    [[nodiscard]] TOPOSEAT_INLINE Set flows() const {
      Set result;
      for (std::size_t w = 0; w < WordCount; ++w)
        result.words[w] = words[w][0];
      return result;
    }
  };

  /// The arrays by column: in locals, or the compiler would expect what is stored in them to change
  /// where they are.
  struct Columns {
    std::size_t count;
    const std::uint64_t *users[WordCount];
    double *were_growing;
    double *shares;

    explicit TOPOSEAT_INLINE Columns(const State &state)
        : count(state.columns), were_growing(state.growing), shares(state.shares) {
      for (std::size_t w = 0; w < WordCount; ++w)
        users[w] = state.users[w];
    }

    /// How many of the users of a vector of columns, from `first` on, are among `flows`.
    [[nodiscard]] TOPOSEAT_INLINE Doubles users_among(const Everywhere &flows,
                                                      std::size_t first) const {
      Words count = {};
      for (std::size_t w = 0; w < WordCount; ++w)
        count += L::bit_counts(L::load(users[w] + first) & flows.words[w]);
      return L::doubles(count);
    }
  };

  /// Equal shares of what columns have left. One that rounding left with nothing or less has next
  /// to nothing, one without growing flows an infinite share.
  static TOPOSEAT_INLINE Doubles shares_of(const Doubles &left, const Doubles &growing) {
    const Doubles least = L::all(std::numeric_limits<double>::min());
    return (left > least ? left : least) / growing;
  }

  /// The smallest share at the beginning of a round.
  static TOPOSEAT_INLINE Doubles enter(const State &state, const Everywhere &growing,
                                       std::size_t round) {
    const Columns columns(state);
    const double *const left = state.left_at(round);
    Doubles least = L::all(std::numeric_limits<double>::infinity());
    for (std::size_t c = 0; c < columns.count; c += L::count) {
      const Doubles count = columns.users_among(growing, c);
      const Doubles shares = shares_of(L::load(left + c), count);
      L::store(columns.were_growing + c, count);
      L::store(columns.shares + c, shares);
      least = L::less(shares, least);
    }
    return L::least_of(least);
  }

  /// The same for the round after: those that do not grow any more have taken `level` each.
  static TOPOSEAT_INLINE Doubles advance(const State &state, const Everywhere &growing,
                                         std::size_t round, const Doubles &level) {
    const Columns columns(state);
    const double *const left = state.left_at(round);
    double *const next = state.left_at(round + 1);
    Doubles least = L::all(std::numeric_limits<double>::infinity());
    for (std::size_t c = 0; c < columns.count; c += L::count) {
      const Doubles count = columns.users_among(growing, c);
      const Doubles taken = (L::load(columns.were_growing + c) - count) * level;
      const Doubles remains = L::load(left + c) - taken;
      const Doubles shares = shares_of(remains, count);
      L::store(next + c, remains);
      L::store(columns.were_growing + c, count);
      L::store(columns.shares + c, shares);
      least = L::less(shares, least);
    }
    return L::least_of(least);
  }

  /// The users, growing or not, of columns whose share is at most `limit`.
  static TOPOSEAT_INLINE Everywhere users_of_full(const State &state, const Doubles &limit) {
    const Columns columns(state);
    Everywhere users{Set()};
    for (std::size_t c = 0; c < columns.count; c += L::count) {
      const auto full = reinterpret_cast<Words>(L::load(columns.shares + c) <= limit);
      for (std::size_t w = 0; w < WordCount; ++w)
        users.words[w] |= L::load(columns.users[w] + c) & full;
    }
    for (std::size_t w = 0; w < WordCount; ++w)
      users.words[w] = L::any_of(users.words[w]);
    return users;
  }

  static TOPOSEAT_INLINE void set_rates(double *rates, const Everywhere &flows,
                                        const Doubles &rate) {
    for (std::size_t w = 0; w < WordCount; ++w) {
      Words bits = L::own_bits();
      for (std::size_t k = 0; k < Set::bits; k += L::count, bits <<= L::count) {
        double *const some = rates + w * Set::bits + k;
        L::store(some, (flows.words[w] & bits) != 0 ? rate : L::load(some));
      }
    }
  }

  /// Freezes those of `growing` whose own bound is reached.
  static TOPOSEAT_INLINE Set freeze_at_bounds(const State &state, Set growing, std::size_t kind,
                                              double limit) {
    for (; kind < state.kind_count && state.kinds[kind].bound <= limit; ++kind) {
      const Set stopped = state.kinds[kind].flows & growing;
      if (!stopped.empty())
        set_rates(state.rates, Everywhere(stopped), L::all(state.kinds[kind].bound));
      growing = growing.without(stopped);
    }
    return growing;
  }

  static TOPOSEAT_INLINE bool changes(const State &state, const Set &growing, const Set &started,
                                      std::size_t round) {
    const double limit = state.rounds[round].level * same_level;
    for (std::size_t k = 0; k < state.kind_count && state.kinds[k].bound <= limit; ++k) {
      if (!(state.kinds[k].flows & started).empty())
        return true;
    }
    const Columns columns(state);
    const Everywhere among(growing);
    const double *const left = state.left_at(round);
    Words any = {};
    for (std::size_t c = 0; c < columns.count; c += L::count) {
      const Doubles most = columns.users_among(among, c) * L::all(limit);
      Words joins = {};
      for (std::size_t w = 0; w < WordCount; ++w)
        joins |= L::load(columns.users[w] + c) & started.words[w];
      any |= joins & reinterpret_cast<Words>(L::load(left + c) <= most);
    }
    return L::any_of(any)[0] != 0;
  }

public:
  /// See EventKernel::step; returns the number of rounds.
  static TOPOSEAT_INLINE std::size_t fill(const State &state, Set growing, std::size_t at) {
    if (growing.empty())
      return at;
    Everywhere still(growing);
    Doubles level = L::all(at > 0 ? state.rounds[at - 1].level : 0.0);
    Doubles share = enter(state, still, at);
    for (;; ++at) {
      FillRound<WordCount> &round = state.rounds[at];
      const Set before = growing;
      std::size_t kind = round.next_kind;
      while (kind < state.kind_count && (state.kinds[kind].flows & growing).empty())
        ++kind;
      const Doubles least =
          kind < state.kind_count ? L::less(share, L::all(state.kinds[kind].bound)) : share;
      // Levels only rise; rounding must not let one fall, or a rate could become negative.
      level = level < least ? least : level;
      const Doubles limit = level * same_level;
      round.level = level[0];
      if (kind < state.kind_count && state.kinds[kind].bound <= limit[0]) {
        growing = freeze_at_bounds(state, growing, kind, limit[0]);
        still = Everywhere(growing);
      }
      if (share[0] <= limit[0]) {
        Everywhere stopped = users_of_full(state, limit);
        for (std::size_t w = 0; w < WordCount; ++w) {
          stopped.words[w] &= still.words[w];
          still.words[w] &= ~stopped.words[w];
        }
        set_rates(state.rates, stopped, level);
        growing = still.flows();
      }
      state.rounds[at + 1].frozen_before = round.frozen_before | before.without(growing);
      state.rounds[at + 1].next_kind = kind;
      if (growing.empty())
        return at + 1;
      share = advance(state, still, at, level);
    }
  }

  /// See EventKernel.
  static TOPOSEAT_INLINE void settle(const State &state, std::size_t rounds) {
    advance(state, Everywhere(Set()), rounds - 1, L::all(state.rounds[rounds - 1].level));
  }

  /// See EventKernel.
  static TOPOSEAT_INLINE double put_off(const State &state, std::size_t round, double level,
                                        double seconds) {
    const FillState<WordCount> of =
        state; // or the compiler would expect what is stored to change it
    const double *const left = of.left_at(round);
    Doubles latest = L::all(0.0);
    for (std::size_t c = 0; c < of.columns; c += L::count) {
      const Doubles unused = L::load(left + c) - L::load(of.growing + c) * level;
      const Doubles end = L::load(of.ends + c) + unused * L::load(of.paces + c) * seconds;
      L::store(of.ends + c, end);
      latest = latest < end ? end : latest;
    }
    return -L::least_of(-latest)[0];
  }

  /// See EventKernel.
  static TOPOSEAT_INLINE std::size_t unchanged(const State &state, const Set &running,
                                               const Set &started, std::size_t rounds) {
    for (std::size_t r = 0; r < rounds; ++r) {
      if (changes(state, running.without(state.rounds[r].frozen_before), started, r))
        return r;
    }
    return rounds;
  }
};
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
