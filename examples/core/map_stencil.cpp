// Places the ranks of a 2x4 stencil on two switches of four GPUs each, with the C++ core alone.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <cstdio>

#include "toposeat/certificate/solve.hpp"

using namespace toposeat;

/// Link d is that of GPU d to its switch, 25 GB/s; links 8 and 9 join the switches, 12.5 GB/s.
Network two_switches() {
  Network network;
  network.devices = 8;
  network.links.assign(8, {25e9, 25e9, unlimited}); // forward, backward, both together
  network.links.insert(network.links.end(), 2, {12.5e9, 12.5e9, unlimited});
  network.route_begin = {0};
  for (std::uint32_t from = 0; from < 8; ++from) {
    for (std::uint32_t to = 0; to < 8; ++to) {
      if (from != to) {
        network.route_uses.push_back({from, false});
        if (from / 4 != to / 4)
          network.route_uses.insert(network.route_uses.end(),
                                    {{8 + from / 4, false}, {8 + to / 4, true}});
        network.route_uses.push_back({to, true});
      }
      network.route_begin.push_back(static_cast<std::uint32_t>(network.route_uses.size()));
      network.cap.push_back(unlimited);
      network.latency.push_back(from == to ? 0 : 2e-6);
    }
  }
  network.validate(); // throws std::invalid_argument
  return network;
}

/// Rank 4 y + x is at (x, y), a ring of four along x: 1 MiB to the next one, 8 MiB to the other y.
RankTraffic stencil() {
  RankTraffic traffic;
  traffic.ranks = 8;
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    traffic.flows.push_back({rank, (rank + 4) % 8, 8 << 20, 1}); // bytes, messages
    traffic.flows.push_back({rank, rank / 4 * 4 + (rank + 1) % 4, 1 << 20, 1});
  }
  traffic.validate();
  return traffic;
}

int main() {
  const Network network = two_switches();
  const RankTraffic traffic = stencil();
  MapRequest request{network, traffic, Matrix(network.devices)};
  request.objective = Objective::time;
  request.budget_s = 1;
  const MapAnswer answer = solve(request);
  for (std::uint32_t rank = 0; rank < traffic.ranks; ++rank)
    std::printf("rank %u on device %u\n", rank, answer.device_of_rank[rank]);
  std::printf("%.3f ms, %s by %s, bound %.3f ms\n", 1e3 * answer.value,
              answer.proved ? "proved" : "not proved", answer.solver.c_str(),
              1e3 * answer.lower_bound.value_or(0));
}
