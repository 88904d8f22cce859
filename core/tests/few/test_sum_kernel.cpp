// The kernels of the bounds of a sum, against what they are to compute, written out one by one.
// Numbers are whole, so that sums are exact in any order.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "catch.hpp"
#include "few/own_links.hpp"
#include "few/sum_kernel.hpp"
#include "toposeat/base/rng.hpp"

using namespace toposeat;

namespace {

DeviceLine random_line(Rng &rng) {
  DeviceLine line;
  for (double &each : line)
    each = rng.below(3) == 0 ? 0 : rng.below(20);
  return line;
}

SmallTable random_table(Rng &rng) {
  SmallTable table;
  for (DeviceLine &line : table)
    line = random_line(rng);
  return table;
}

} // namespace

TEST_CASE("what later ranks exchange with a placed one is added to their costs", "[sum]") {
  Rng rng(51);
  for (const SumKernels &kernels : every_sum_kernels()) {
    for (int repetition = 0; repetition < 20; ++repetition) {
      const SmallTable bytes = random_table(rng);
      const SmallTable here = random_table(rng);
      const DeviceLine leaving = random_line(rng);
      const DeviceLine entering = random_line(rng);
      const LonePaces own{random_line(rng), random_line(rng), random_line(rng)};
      const std::size_t place = rng.below(4);
      const std::size_t first = place + 1 + rng.below(2);
      const std::size_t end = 5 + rng.below(4);
      SmallTable below = here;
      kernels.add_placed({&bytes, place, end, &leaving, &entering, &own}, first, here, below);
      for (std::size_t q = 0; q < small_width; ++q) {
        for (std::size_t d = 0; d < small_width; ++d) {
          const double out = bytes[place][q];
          const double in = bytes[q][place];
          const double added =
              out * leaving[d] + in * entering[d] + OwnLinks::seconds(own, d, out, in);
          CHECK(below[q][d] == here[q][d] + (q >= first && q < end ? added : 0));
        }
      }
    }
  }
}

TEST_CASE("the least costs of ranks on open devices are added by rank and by device", "[sum]") {
  Rng rng(52);
  for (const SumKernels &kernels : every_sum_kernels()) {
    for (int repetition = 0; repetition < 40; ++repetition) {
      const SmallTable costs = random_table(rng);
      const SmallTable halves = random_table(rng);
      const SmallTable paces = random_table(rng);
      std::array<std::uint8_t, small_width> peers{};
      for (std::uint8_t &each : peers)
        each = static_cast<std::uint8_t>(rng.below(5));
      const std::size_t first = rng.below(4);
      const std::size_t end = 5 + rng.below(4);
      const auto open = static_cast<std::uint32_t>(1 + rng.below(255));
      const auto cost = [&](std::size_t q, std::size_t d) {
        double whole = costs[q][d];
        for (std::size_t k = 0; k < peers[q]; ++k)
          whole += halves[q][k] * paces[k][d];
        return whole;
      };
      const auto is_open = [&](std::size_t d) { return (open >> d & 1U) != 0; };
      double by_rank = 0;
      for (std::size_t q = first; q < end; ++q) {
        double least = unlimited;
        for (std::size_t d = 0; d < small_width; ++d)
          least = is_open(d) ? std::min(least, cost(q, d)) : least;
        by_rank += least;
      }
      double by_device = 0;
      for (std::size_t d = 0; d < small_width; ++d) {
        double least = unlimited;
        for (std::size_t q = first; q < end; ++q)
          least = std::min(least, cost(q, d));
        by_device += is_open(d) ? least : 0;
      }
      const bool full = static_cast<std::size_t>(std::popcount(open)) == end - first;
      CHECK(kernels.least_ahead(costs, first, end, {&halves, peers.data(), &paces, open}) ==
            (full ? std::max(by_rank, by_device) : by_rank));
    }
  }
}

TEST_CASE("what a rank adds to terms grows by what it exchanges with a placed one", "[sum]") {
  Rng rng(53);
  for (const SumKernels &kernels : every_sum_kernels()) {
    for (const std::size_t terms : {1, 2, 7}) {
      std::array<std::vector<DeviceLine>, 3> lines; // here, leaving, entering
      for (auto &each : lines) {
        for (std::size_t term = 0; term < terms; ++term)
          each.push_back(random_line(rng));
      }
      std::vector<DeviceLine> below(terms);
      kernels.add_terms(lines[0].data(), lines[1].data(), lines[2].data(), 3, 5, terms,
                        below.data());
      for (std::size_t term = 0; term < terms; ++term) {
        for (std::size_t d = 0; d < small_width; ++d)
          CHECK(below[term][d] ==
                lines[0][term][d] + 3 * lines[1][term][d] + 5 * lines[2][term][d]);
      }
    }
  }
}
