// SPDX-License-Identifier: MIT OR Apache-2.0
#include "few/last_four.hpp"

#include <bit>

#include "base/wide.hpp"
#include "few/last_four_avx512.hpp"

namespace toposeat {
namespace {

constexpr std::size_t groups = last_ways / last_ranks; // of ways that are rotations of each other

/// By device of the four; GCC and Clang split it into what the processor has.
typedef double Four __attribute__((vector_size(32)));
typedef double FourUnaligned __attribute__((vector_size(32), aligned(alignof(double)), may_alias));

TOPOSEAT_INLINE Four load(const double *first) {
  return *reinterpret_cast<const FourUnaligned *>(first);
}

TOPOSEAT_INLINE void store(double *first, Four value) {
  *reinterpret_cast<FourUnaligned *>(first) = value;
}

TOPOSEAT_INLINE Four larger(Four a, Four b) { return a > b ? a : b; }

/// Element j becomes what was element j + Shift.
template <std::size_t Shift> TOPOSEAT_INLINE Four rotated(Four value) {
  return __builtin_shufflevector(value, value, Shift % 4, (Shift + 1) % 4, (Shift + 2) % 4,
                                 (Shift + 3) % 4);
}

TOPOSEAT_INLINE Four taken(const DeviceLine &line, const FourDevices &devices) {
  return Four{line[devices[0]], line[devices[1]], line[devices[2]], line[devices[3]]};
}

/// What depends on one rank each, joined, and joined with what is known of every way.
template <class Join>
TOPOSEAT_INLINE void join_ranks(const Four ranks[last_ranks], Join join, Four ways[groups]) {
  const Four b1 = join(ranks[0], rotated<1>(ranks[1]));
  const Four b2 = join(ranks[0], rotated<2>(ranks[1]));
  const Four b3 = join(ranks[0], rotated<3>(ranks[1]));
  const Four c1 = rotated<1>(ranks[2]);
  const Four c2 = rotated<2>(ranks[2]);
  const Four c3 = rotated<3>(ranks[2]);
  const Four d1 = rotated<1>(ranks[3]);
  const Four d2 = rotated<2>(ranks[3]);
  const Four d3 = rotated<3>(ranks[3]);
  ways[0] = join(ways[0], join(b1, join(c2, d3)));
  ways[1] = join(ways[1], join(b1, join(c3, d2)));
  ways[2] = join(ways[2], join(b2, join(c1, d3)));
  ways[3] = join(ways[3], join(b2, join(c3, d1)));
  ways[4] = join(ways[4], join(b3, join(c1, d2)));
  ways[5] = join(ways[5], join(b3, join(c2, d1)));
}

struct Add {
  TOPOSEAT_INLINE Four operator()(Four a, Four b) const { return a + b; }
};
struct Larger {
  TOPOSEAT_INLINE Four operator()(Four a, Four b) const { return larger(a, b); }
};

TOPOSEAT_INLINE void load_ways(const Ways &from, Four ways[groups]) {
  for (std::size_t g = 0; g < groups; ++g)
    ways[g] = load(from.data() + last_ranks * g);
}

TOPOSEAT_INLINE void store_ways(const Four ways[groups], Ways &to) {
  for (std::size_t g = 0; g < groups; ++g)
    store(to.data() + last_ranks * g, ways[g]);
}

/// The sum of one term in every way.
TOPOSEAT_INLINE void sums_of(const FourLoads &loads, std::size_t term, Four sums[groups]) {
  const Four out = taken(loads.leaving[term], loads.devices);
  const Four in = taken(loads.entering[term], loads.devices);
  Four ranks[last_ranks];
  for (std::size_t k = 0; k < last_ranks; ++k)
    ranks[k] =
        taken(loads.rows[k][term], loads.devices) + (loads.received[k] * out + loads.sent[k] * in);
  ranks[0] += loads.placed[term] + loads.latest_row[term][loads.device];
  load_ways(loads.among[term], sums);
  join_ranks(ranks, Add{}, sums);
}

TOPOSEAT_INLINE bool any_below(const Four values[groups], double limit) {
  Four least = values[0];
  for (std::size_t g = 1; g < groups; ++g)
    least = values[g] < least ? values[g] : least;
  return least[0] < limit || least[1] < limit || least[2] < limit || least[3] < limit;
}

TOPOSEAT_INLINE std::size_t raise(const FourLoads &loads, const std::uint32_t *order,
                                  const FourByFour &expected, double limit, Ways &most) {
  Four largest[groups];
  load_ways(most, largest);
  const Four ranks[last_ranks] = {load(expected[0].data()), load(expected[1].data()),
                                  load(expected[2].data()), load(expected[3].data())};
  join_ranks(ranks, Larger{}, largest);
  for (std::size_t term = 0; term < loads.terms; ++term) {
    if (term % terms_at_once == 0 && !any_below(largest, limit))
      return term;
    Four sums[groups];
    sums_of(loads, order[term], sums);
    for (std::size_t g = 0; g < groups; ++g)
      largest[g] = larger(largest[g], sums[g]);
  }
  store_ways(largest, most);
  return any_below(largest, limit) ? loads.terms + 1 : loads.terms;
}

TOPOSEAT_INLINE Ways one_sum(double placed, const SmallTable &rows, std::size_t first,
                             const FourDevices &devices, const Ways &among) {
  const Four ranks[last_ranks] = {placed + taken(rows[first], devices),
                                  taken(rows[first + 1], devices), taken(rows[first + 2], devices),
                                  taken(rows[first + 3], devices)};
  Four sums[groups];
  load_ways(among, sums);
  join_ranks(ranks, Add{}, sums);
  Ways ways;
  store_ways(sums, ways);
  return ways;
}

TOPOSEAT_INLINE void add_seconds(const FourLoads &loads, const LinkPaces *paces, Ways &total) {
  Four sum[groups];
  load_ways(total, sum);
  for (std::size_t link = 0; 2 * link < loads.terms; ++link) {
    Four forward[groups];
    Four backward[groups];
    sums_of(loads, 2 * link, forward);
    sums_of(loads, 2 * link + 1, backward);
    const LinkPaces &pace = paces[link];
    for (std::size_t g = 0; g < groups; ++g) {
      const Four one = larger(forward[g] * pace.forward, backward[g] * pace.backward);
      sum[g] += larger(one, (forward[g] + backward[g]) * pace.combined);
    }
  }
  store_ways(sum, total);
}

TOPOSEAT_INLINE void add_pair(double pace, const Ways &bytes, Four sums[groups]) {
  for (std::size_t g = 0; g < groups; ++g)
    sums[g] += pace * load(bytes.data() + last_ranks * g);
}

TOPOSEAT_INLINE void fill(const TermTable &table, std::size_t term, const SeatBytes &bytes,
                          const FourDevices &devices, Ways &among) {
  const std::uint32_t set =
      1U << devices[0] | 1U << devices[1] | 1U << devices[2] | 1U << devices[3];
  Four sums[groups] = {};
  for (std::size_t a = 0; a < last_ranks; ++a) {
    std::uint32_t peers = table.peers(devices[a], term) & set;
    for (; peers != 0; peers &= peers - 1) {
      const auto peer = static_cast<std::size_t>(std::countr_zero(peers));
      const auto b = static_cast<std::size_t>(std::popcount(set & ((1U << peer) - 1)));
      add_pair(table.leaving(devices[a])[term][peer], bytes[a][b], sums);
    }
  }
  store_ways(sums, among);
}

TOPOSEAT_INLINE void add_table(const SmallTable &costs, const SeatBytes &bytes,
                               const FourDevices &devices, Ways &total) {
  Four sums[groups];
  load_ways(total, sums);
  for (std::size_t a = 0; a < last_ranks; ++a) {
    for (std::size_t b = 0; b < last_ranks; ++b) {
      if (a != b)
        add_pair(costs[devices[a]][devices[b]], bytes[a][b], sums);
    }
  }
  store_ways(sums, total);
}

template <class Join>
TOPOSEAT_INLINE void join_own(const std::array<LonePaces, small_width> &own, const SeatBytes &bytes,
                              const FourDevices &devices, Ways &joined) {
  Four all[groups];
  load_ways(joined, all);
  for (std::size_t a = 0; a < last_ranks; ++a) {
    const LonePaces &paces = own[devices[a]];
    for (std::size_t b = a + 1; b < last_ranks; ++b) {
      const double leaving = paces.leaving[devices[b]];
      const double entering = paces.entering[devices[b]];
      const double both = paces.both[devices[b]];
      if (leaving == 0 && entering == 0 && both == 0)
        continue;
      for (std::size_t g = 0; g < groups; ++g) {
        const Four sent = load(bytes[a][b].data() + last_ranks * g);
        const Four received = load(bytes[b][a].data() + last_ranks * g);
        const Four one = larger(leaving * sent, entering * received);
        all[g] = Join{}(all[g], larger(one, both * (sent + received)));
      }
    }
  }
  store_ways(all, joined);
}

// An attribute cannot stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define TOPOSEAT_FOUR_KERNELS(NAME, TARGET)                                                        \
  struct NAME {                                                                                    \
    TARGET static void fill_among(const TermTable &table, std::size_t term,                        \
                                  const SeatBytes &bytes, const FourDevices &devices,              \
                                  Ways &among) {                                                   \
      fill(table, term, bytes, devices, among);                                                    \
    }                                                                                              \
    TARGET static void add_costs(const SmallTable &costs, const SeatBytes &bytes,                  \
                                 const FourDevices &devices, Ways &total) {                        \
      add_table(costs, bytes, devices, total);                                                     \
    }                                                                                              \
    template <class Join>                                                                          \
    TARGET static void own(const std::array<LonePaces, small_width> &own, const SeatBytes &bytes,  \
                           const FourDevices &devices, Ways &joined) {                             \
      join_own<Join>(own, bytes, devices, joined);                                                 \
    }                                                                                              \
    TARGET static std::size_t raise_to_largest(const FourLoads &loads, const std::uint32_t *order, \
                                               const FourByFour &expected, double limit,           \
                                               Ways &most) {                                       \
      return raise(loads, order, expected, limit, most);                                           \
    }                                                                                              \
    TARGET static Ways one(double placed, const SmallTable &rows, std::size_t first,               \
                           const FourDevices &devices, const Ways &among) {                        \
      return one_sum(placed, rows, first, devices, among);                                         \
    }                                                                                              \
    TARGET static void add_link_seconds(const FourLoads &loads, const LinkPaces *paces,            \
                                        Ways &total) {                                             \
      add_seconds(loads, paces, total);                                                            \
    }                                                                                              \
    static constexpr FourKernels kernels{                                                          \
        fill_among, add_costs, own<Add>, own<Larger>, raise_to_largest, one, add_link_seconds};    \
  }
// NOLINTEND(bugprone-macro-parentheses)

TOPOSEAT_FOUR_KERNELS(Plain, );
#ifdef TOPOSEAT_WIDER
TOPOSEAT_FOUR_KERNELS(Avx2, __attribute__((target("avx2"))));
#endif

} // namespace

SeatBytes bytes_by_seats(const SmallTable &bytes, std::size_t first) {
  SeatBytes by_seats{};
  for (std::size_t way = 0; way < last_ways; ++way) {
    for (std::size_t k = 0; k < last_ranks; ++k) {
      for (std::size_t l = 0; l < last_ranks; ++l)
        by_seats[last_seat(way, k)][last_seat(way, l)][way] = bytes[first + k][first + l];
    }
  }
  return by_seats;
}

std::vector<FourKernels> every_four_kernels() {
  std::vector<FourKernels> all;
#ifdef TOPOSEAT_WIDER
  if (__builtin_cpu_supports("avx2") != 0) {
    all.push_back(Avx2::kernels);
    if (use_avx512(all.front()))
      all.push_back(Avx2::kernels);
  }
#endif
  all.push_back(Plain::kernels);
  return all;
}

FourKernels four_kernels() {
  static const FourKernels best = every_four_kernels().front();
  return best;
}

} // namespace toposeat
