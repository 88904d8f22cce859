// SPDX-License-Identifier: MIT OR Apache-2.0
#include "flow/event_kernel.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "base/lanes.hpp"
#include "base/wide.hpp"
#include "flow/fill_rounds.hpp"
#include "flow/motion_lanes.hpp"
#include "flow/running_flows.hpp"

#ifdef TOPOSEAT_WIDER
#include <immintrin.h>
#endif

namespace toposeat {
namespace {

struct PlainLanes : Lanes<16> {
  static TOPOSEAT_INLINE Words bit_counts(const Words &words) {
    return Words{static_cast<std::uint64_t>(std::popcount(words[0])),
                 static_cast<std::uint64_t>(std::popcount(words[1]))};
  }
};

#ifdef TOPOSEAT_WIDER
#define TOPOSEAT_AVX2 __attribute__((target("avx2")))
#define TOPOSEAT_AVX512 __attribute__((target("avx2,avx512f,avx512vl,avx512vpopcntdq")))

// Intrinsics are for their processor only, so that functions with them cannot be inlined into
// anything that is not.
struct Avx2Lanes : Lanes<32> {
  /// Of both halves of each byte by table, then summed.
  TOPOSEAT_AVX2 static inline Words bit_counts(const Words &words) {
    const __m256i halves = _mm256_set1_epi8(15);
    const __m256i counts = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1,
                                            2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const auto bits = reinterpret_cast<__m256i>(words);
    const __m256i low = _mm256_shuffle_epi8(counts, _mm256_and_si256(bits, halves));
    const __m256i high =
        _mm256_shuffle_epi8(counts, _mm256_and_si256(_mm256_srli_epi16(bits, 4), halves));
    return reinterpret_cast<Words>(
        _mm256_sad_epu8(_mm256_add_epi8(low, high), _mm256_setzero_si256()));
  }
};

struct Avx512Lanes : Lanes<64> {
  TOPOSEAT_AVX512 static inline Words bit_counts(const Words &words) {
    return reinterpret_cast<Words>(_mm512_popcnt_epi64(reinterpret_cast<__m512i>(words)));
  }
};
#endif

template <std::size_t Words, class L>
TOPOSEAT_INLINE NextFinish<Words> step(const FillState<Words> &state, const FlowSet<Words> &growing,
                                       std::size_t first, const Motions &motions, double now,
                                       double next_start) {
  NextFinish<Words> next;
  next.rounds = FillRounds<Words, L>::fill(state, growing, first);
  next.at = std::max(now, MotionLanes<Words, L>::follow(motions, state.rates, now));
  if (next.at <= next_start)
    next.flows =
        MotionLanes<Words, L>::not_later(motions.until, motions.flows, next.at * same_time);
  return next;
}

// The kernel for one kind of processor. An attribute cannot stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define TOPOSEAT_EVENT_KERNEL(NAME, LANES, TARGET)                                                 \
  template <std::size_t Words> struct NAME {                                                       \
    using Set = FlowSet<Words>;                                                                    \
    using State = FillState<Words>;                                                                \
    TARGET static NextFinish<Words> step_on(const State &state, const Set &growing,                \
                                            std::size_t first, const Motions &motions, double now, \
                                            double next_start) {                                   \
      return step<Words, LANES>(state, growing, first, motions, now, next_start);                  \
    }                                                                                              \
    TARGET static void settle(const State &state, std::size_t rounds) {                            \
      FillRounds<Words, LANES>::settle(state, rounds);                                             \
    }                                                                                              \
    TARGET static double put_off(const State &state, std::size_t round, double level,              \
                                 double seconds) {                                                 \
      return FillRounds<Words, LANES>::put_off(state, round, level, seconds);                      \
    }                                                                                              \
    TARGET static double end_alone(const Motions &motions, double now) {                           \
      return MotionLanes<Words, LANES>::end_alone(motions, now);                                   \
    }                                                                                              \
    TARGET static std::size_t unchanged(const State &state, const Set &running,                    \
                                        const Set &started, std::size_t rounds) {                  \
      return FillRounds<Words, LANES>::unchanged(state, running, started, rounds);                 \
    }                                                                                              \
    TARGET static Set not_later(const double *times, std::size_t flows, double limit) {            \
      return MotionLanes<Words, LANES>::not_later(times, flows, limit);                            \
    }                                                                                              \
    static constexpr EventKernel<Words> kernel{step_on,   settle,    put_off,                      \
                                               end_alone, unchanged, not_later};                   \
  }
// NOLINTEND(bugprone-macro-parentheses)

TOPOSEAT_EVENT_KERNEL(Plain, PlainLanes, );
#ifdef TOPOSEAT_WIDER
TOPOSEAT_EVENT_KERNEL(Avx2, Avx2Lanes, TOPOSEAT_AVX2);
TOPOSEAT_EVENT_KERNEL(Avx512, Avx512Lanes, TOPOSEAT_AVX512);
#endif

} // namespace

template <std::size_t Words> std::span<const EventKernel<Words> *const> event_kernels() {
#ifdef TOPOSEAT_WIDER
  static const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  static const bool avx512 = avx2 && __builtin_cpu_supports("avx512vl") != 0 &&
                             __builtin_cpu_supports("avx512vpopcntdq") != 0;
  static constexpr std::array all{&Avx512<Words>::kernel, &Avx2<Words>::kernel,
                                  &Plain<Words>::kernel};
  return std::span(all).subspan(avx512 ? 0 : avx2 ? 1 : 2);
#else
  static constexpr std::array all{&Plain<Words>::kernel};
  return all;
#endif
}

template std::span<const EventKernel<1> *const> event_kernels();
template std::span<const EventKernel<2> *const> event_kernels();
template std::span<const EventKernel<4> *const> event_kernels();

} // namespace toposeat
