// SPDX-License-Identifier: MIT OR Apache-2.0
#include "few/sum_kernel.hpp"

#include <algorithm>
#include <bit>

#include "base/wide.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {
namespace {

/// A line of eight devices in vectors of so many bytes.
template <std::size_t Bytes> struct Line {
  typedef double Vector __attribute__((vector_size(Bytes)));
  typedef double InMemory __attribute__((vector_size(Bytes), aligned(alignof(double)), may_alias));
  static constexpr std::size_t lanes = Bytes / sizeof(double);
  static constexpr std::size_t parts = small_width / lanes;

  static TOPOSEAT_INLINE Vector load(const DeviceLine &line, std::size_t part) {
    return *reinterpret_cast<const InMemory *>(line.data() + part * lanes);
  }
  static TOPOSEAT_INLINE void store(DeviceLine &line, std::size_t part, Vector value) {
    *reinterpret_cast<InMemory *>(line.data() + part * lanes) = value;
  }
  static TOPOSEAT_INLINE Vector larger(Vector a, Vector b) { return a > b ? a : b; }
  static TOPOSEAT_INLINE Vector less(Vector a, Vector b) { return a < b ? a : b; }
};

template <std::size_t Bytes>
TOPOSEAT_INLINE void add_placed_ranks(const PlacedRank &rank, std::size_t first,
                                      const SmallTable &here, SmallTable &below) {
  using L = Line<Bytes>;
  for (std::size_t part = 0; part < L::parts; ++part) {
    const auto leaving = L::load(*rank.leaving, part);
    const auto entering = L::load(*rank.entering, part);
    const auto own_leaving = L::load(rank.own->leaving, part);
    const auto own_entering = L::load(rank.own->entering, part);
    const auto own_both = L::load(rank.own->both, part);
    for (std::size_t q = first; q < rank.end; ++q) {
      const double out = (*rank.bytes)[rank.place][q];
      const double in = (*rank.bytes)[q][rank.place];
      const auto one = L::larger(out * own_leaving, in * own_entering);
      const auto own = L::larger(one, (out + in) * own_both);
      L::store(below[q], part, L::load(here[q], part) + (out * leaving + in * entering) + own);
    }
  }
}

template <std::size_t Bytes>
TOPOSEAT_INLINE double least_of_ranks(const SmallTable &costs, std::size_t first, std::size_t end,
                                      const RanksAhead &ahead) {
  using L = Line<Bytes>;
  using Vector = typename L::Vector;
  DeviceLine closed;
  for (std::size_t d = 0; d < small_width; ++d)
    closed[d] = (ahead.open >> d & 1U) != 0 ? 0 : unlimited;
  Vector by_device[L::parts];
  for (Vector &each : by_device)
    each = Vector{} + unlimited;
  double by_rank = 0;
  for (std::size_t q = first; q < end; ++q) {
    Vector least = Vector{} + unlimited;
    for (std::size_t part = 0; part < L::parts; ++part) {
      Vector cost = L::load(costs[q], part);
      for (std::size_t k = 0; k < ahead.peers[q]; ++k)
        cost += (*ahead.halves)[q][k] * L::load((*ahead.least_paces)[k], part);
      cost += L::load(closed, part);
      by_device[part] = L::less(by_device[part], cost);
      least = L::less(least, cost);
    }
    double of_rank = least[0];
    for (std::size_t lane = 1; lane < L::lanes; ++lane)
      of_rank = std::min(of_rank, least[lane]);
    by_rank += of_rank;
  }
  if (static_cast<std::size_t>(std::popcount(ahead.open)) != end - first)
    return by_rank;
  double of_devices = 0;
  for (std::uint32_t set = ahead.open; set != 0; set &= set - 1) {
    const auto d = static_cast<std::size_t>(std::countr_zero(set));
    of_devices += by_device[d / L::lanes][d % L::lanes];
  }
  return std::max(by_rank, of_devices);
}

template <std::size_t Bytes>
TOPOSEAT_INLINE void add_all_terms(const DeviceLine *here, const DeviceLine *leaving,
                                   const DeviceLine *entering, double received, double sent,
                                   std::size_t terms, DeviceLine *below) {
  using L = Line<Bytes>;
  for (std::size_t t = 0; t < terms; ++t) {
    for (std::size_t part = 0; part < L::parts; ++part)
      L::store(below[t], part,
               L::load(here[t], part) +
                   (received * L::load(leaving[t], part) + sent * L::load(entering[t], part)));
  }
}

// An attribute cannot stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define TOPOSEAT_SUM_KERNELS(NAME, BYTES, TARGET)                                                  \
  struct NAME {                                                                                    \
    TARGET static void add_placed(const PlacedRank &rank, std::size_t first,                       \
                                  const SmallTable &here, SmallTable &below) {                     \
      add_placed_ranks<BYTES>(rank, first, here, below);                                           \
    }                                                                                              \
    TARGET static double least_ahead(const SmallTable &costs, std::size_t first, std::size_t end,  \
                                     const RanksAhead &ahead) {                                    \
      return least_of_ranks<BYTES>(costs, first, end, ahead);                                      \
    }                                                                                              \
    TARGET static void add_terms(const DeviceLine *here, const DeviceLine *leaving,                \
                                 const DeviceLine *entering, double received, double sent,         \
                                 std::size_t terms, DeviceLine *below) {                           \
      add_all_terms<BYTES>(here, leaving, entering, received, sent, terms, below);                 \
    }                                                                                              \
    static constexpr SumKernels kernels{add_placed, least_ahead, add_terms};                       \
  }
// NOLINTEND(bugprone-macro-parentheses)

TOPOSEAT_SUM_KERNELS(Plain, 16, );
#ifdef TOPOSEAT_WIDER
TOPOSEAT_SUM_KERNELS(Avx2, 32, __attribute__((target("avx2"))));
TOPOSEAT_SUM_KERNELS(Avx512, 64, __attribute__((target("avx2,avx512f"))));
#endif

} // namespace

std::vector<SumKernels> every_sum_kernels() {
  std::vector<SumKernels> all;
#ifdef TOPOSEAT_WIDER
  if (__builtin_cpu_supports("avx512f") != 0)
    all.push_back(Avx512::kernels);
  if (__builtin_cpu_supports("avx2") != 0)
    all.push_back(Avx2::kernels);
#endif
  all.push_back(Plain::kernels);
  return all;
}

SumKernels sum_kernels() {
  static const SumKernels best = every_sum_kernels().front();
  return best;
}

} // namespace toposeat
