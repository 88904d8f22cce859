// SPDX-License-Identifier: MIT OR Apache-2.0
#include "few/last_four_avx512.hpp"

#include "base/wide.hpp"

#ifdef TOPOSEAT_WIDER
#include <immintrin.h>
#endif

namespace toposeat {

#ifdef TOPOSEAT_WIDER
namespace {

// Functions of the compiler's header are only inlined where the processor is the same.
#define TOPOSEAT_AVX512 __attribute__((target("avx512f")))
#define TOPOSEAT_AVX512_INLINE TOPOSEAT_AVX512 inline __attribute__((always_inline))

constexpr std::size_t lanes = 8;
constexpr std::size_t vectors = last_ways / lanes;
constexpr __mmask8 every_lane = 0xff; // GCC 12 warns of its own header where there is no mask
static_assert(small_width == lanes);  // a line of devices is one vector

/// For vector v: which of the four devices rank k has in each of its ways.
struct WaySeats {
  alignas(64) long long of[vectors][last_ranks][lanes];
};

constexpr WaySeats way_seats() {
  WaySeats seats{};
  for (std::size_t v = 0; v < vectors; ++v) {
    for (std::size_t k = 0; k < last_ranks; ++k) {
      for (std::size_t lane = 0; lane < lanes; ++lane)
        seats.of[v][k][lane] = static_cast<long long>(last_seat(lanes * v + lane, k));
    }
  }
  return seats;
}

constexpr WaySeats seats_of_ways = way_seats();

/// A number per way.
struct EveryWay {
  __m512d of[vectors];
};

/// Whatever depends on the device of one rank is, in eight ways, one permutation of a line.
struct Permutations {
  __m512i of[vectors][last_ranks];
};

TOPOSEAT_AVX512_INLINE Permutations permutations(const FourDevices &devices) {
  alignas(64) const long long numbers[lanes] = {devices[0], devices[1], devices[2], devices[3],
                                                devices[0], devices[1], devices[2], devices[3]};
  const __m512i chosen = _mm512_load_si512(numbers);
  Permutations result;
  for (std::size_t v = 0; v < vectors; ++v) {
    for (std::size_t k = 0; k < last_ranks; ++k)
      result.of[v][k] = _mm512_maskz_permutexvar_epi64(
          every_lane, _mm512_load_si512(seats_of_ways.of[v][k]), chosen);
  }
  return result;
}

TOPOSEAT_AVX512_INLINE EveryWay load(const Ways &ways) {
  EveryWay result;
  for (std::size_t v = 0; v < vectors; ++v)
    result.of[v] = _mm512_loadu_pd(ways.data() + lanes * v);
  return result;
}

TOPOSEAT_AVX512_INLINE void store(const EveryWay &from, Ways &to) {
  for (std::size_t v = 0; v < vectors; ++v)
    _mm512_storeu_pd(to.data() + lanes * v, from.of[v]);
}

TOPOSEAT_AVX512_INLINE __m512d of_rank(const Permutations &permutations, std::size_t v,
                                       std::size_t k, __m512d line) {
  return _mm512_maskz_permutexvar_pd(every_lane, permutations.of[v][k], line);
}

/// In the order of `join_ranks`, so that sums come out the same.
TOPOSEAT_AVX512_INLINE void add_ranks(const __m512d ranks[last_ranks],
                                      const Permutations &permutations, EveryWay &sums) {
  for (std::size_t v = 0; v < vectors; ++v) {
    const __m512d first =
        _mm512_add_pd(of_rank(permutations, v, 0, ranks[0]), of_rank(permutations, v, 1, ranks[1]));
    const __m512d last =
        _mm512_add_pd(of_rank(permutations, v, 2, ranks[2]), of_rank(permutations, v, 3, ranks[3]));
    sums.of[v] = _mm512_add_pd(sums.of[v], _mm512_add_pd(first, last));
  }
}

TOPOSEAT_AVX512_INLINE EveryWay sums_of(const FourLoads &loads, std::size_t term,
                                        const Permutations &permutations) {
  const __m512d out = _mm512_loadu_pd(loads.leaving[term].data());
  const __m512d in = _mm512_loadu_pd(loads.entering[term].data());
  __m512d ranks[last_ranks];
  for (std::size_t k = 0; k < last_ranks; ++k) {
    const __m512d exchanged = _mm512_add_pd(_mm512_mul_pd(_mm512_set1_pd(loads.received[k]), out),
                                            _mm512_mul_pd(_mm512_set1_pd(loads.sent[k]), in));
    ranks[k] = _mm512_add_pd(_mm512_loadu_pd(loads.rows[k][term].data()), exchanged);
  }
  const double placed = loads.placed[term] + loads.latest_row[term][loads.device];
  ranks[0] = _mm512_add_pd(ranks[0], _mm512_set1_pd(placed));
  EveryWay sums = load(loads.among[term]);
  add_ranks(ranks, permutations, sums);
  return sums;
}

TOPOSEAT_AVX512_INLINE bool any_below(const EveryWay &values, double limit) {
  __mmask8 below = 0;
  for (const __m512d &each : values.of)
    below |= _mm512_cmp_pd_mask(each, _mm512_set1_pd(limit), _CMP_LT_OQ);
  return below != 0;
}

TOPOSEAT_AVX512 std::size_t raise(const FourLoads &loads, const std::uint32_t *order,
                                  const FourByFour &expected, double limit, Ways &most) {
  EveryWay largest = load(most);
  for (std::size_t k = 0; k < last_ranks; ++k) {
    const __m512d by_seat =
        _mm512_maskz_broadcast_f64x4(every_lane, _mm256_loadu_pd(expected[k].data()));
    for (std::size_t v = 0; v < vectors; ++v)
      largest.of[v] =
          _mm512_maskz_max_pd(every_lane, largest.of[v],
                              _mm512_maskz_permutexvar_pd(
                                  every_lane, _mm512_load_si512(seats_of_ways.of[v][k]), by_seat));
  }
  const Permutations chosen = permutations(loads.devices);
  for (std::size_t term = 0; term < loads.terms; ++term) {
    if (term % terms_at_once == 0 && !any_below(largest, limit))
      return term;
    const EveryWay sums = sums_of(loads, order[term], chosen);
    for (std::size_t v = 0; v < vectors; ++v)
      largest.of[v] = _mm512_maskz_max_pd(every_lane, largest.of[v], sums.of[v]);
  }
  store(largest, most);
  return any_below(largest, limit) ? loads.terms + 1 : loads.terms;
}

TOPOSEAT_AVX512 Ways one_sum(double placed, const SmallTable &rows, std::size_t first,
                             const FourDevices &devices, const Ways &among) {
  __m512d ranks[last_ranks];
  for (std::size_t k = 0; k < last_ranks; ++k)
    ranks[k] = _mm512_loadu_pd(rows[first + k].data());
  ranks[0] = _mm512_add_pd(_mm512_set1_pd(placed), ranks[0]);
  EveryWay sums = load(among);
  add_ranks(ranks, permutations(devices), sums);
  Ways ways;
  store(sums, ways);
  return ways;
}

TOPOSEAT_AVX512 void add_seconds(const FourLoads &loads, const LinkPaces *paces, Ways &total) {
  const Permutations chosen = permutations(loads.devices);
  EveryWay sum = load(total);
  for (std::size_t link = 0; 2 * link < loads.terms; ++link) {
    const EveryWay forward = sums_of(loads, 2 * link, chosen);
    const EveryWay backward = sums_of(loads, 2 * link + 1, chosen);
    const LinkPaces &pace = paces[link];
    for (std::size_t v = 0; v < vectors; ++v) {
      const __m512d one = _mm512_maskz_max_pd(
          every_lane, _mm512_mul_pd(forward.of[v], _mm512_set1_pd(pace.forward)),
          _mm512_mul_pd(backward.of[v], _mm512_set1_pd(pace.backward)));
      const __m512d both = _mm512_mul_pd(_mm512_add_pd(forward.of[v], backward.of[v]),
                                         _mm512_set1_pd(pace.combined));
      sum.of[v] = _mm512_add_pd(sum.of[v], _mm512_maskz_max_pd(every_lane, one, both));
    }
  }
  store(sum, total);
}

} // namespace

bool use_avx512(FourKernels &kernels) {
  if (__builtin_cpu_supports("avx512f") == 0)
    return false;
  kernels.raise_to_largest = raise;
  kernels.one_sum = one_sum;
  kernels.add_link_seconds = add_seconds;
  return true;
}
#else
bool use_avx512(FourKernels &) { return false; }
#endif

} // namespace toposeat
