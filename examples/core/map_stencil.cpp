// Places the ranks of a 2x4 stencil on two switches of four GPUs each, with the C++ core alone.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <cstdio>

#include "toposeat/certificate/solve.hpp"
#include "toposeat/problem/network_builder.hpp"

int main() {
  toposeat::NetworkBuilder machine(8); // GPUs 0 to 7
  const std::uint32_t left = machine.add_switch();
  const std::uint32_t right = machine.add_switch();
  for (std::uint32_t gpu = 0; gpu < 8; ++gpu)
    machine.join(gpu, gpu < 4 ? left : right, {25e9, 25e9}, 1e-6); // bytes/s each way, seconds
  machine.join(left, right, {12.5e9, 12.5e9});

  toposeat::RankTraffic stencil{8, {}}; // rank 4 y + x: 1 MiB along x, 8 MiB to the other y
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    stencil.flows.push_back({rank, (rank + 4) % 8, 8 << 20, 1}); // bytes, messages
    stencil.flows.push_back({rank, rank / 4 * 4 + (rank + 1) % 4, 1 << 20, 1});
  }

  const toposeat::MapAnswer answer = toposeat::solve({machine.build(), stencil});
  for (std::uint32_t rank = 0; rank < 8; ++rank)
    std::printf("rank %u on device %u\n", rank, answer.device_of_rank[rank]);
  std::printf("%.3f ms, %s by %s\n", 1e3 * answer.value, answer.proved ? "proved" : "not proved",
              answer.solver.c_str());
}
