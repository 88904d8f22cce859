// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/problem/assignment.hpp"

#include <stdexcept>
#include <string>

namespace toposeat {

void check_assignment(const Network &network, std::uint32_t ranks,
                      std::span<const std::uint32_t> device_of_rank) {
  if (device_of_rank.size() != ranks) {
    throw std::invalid_argument("expected a device for each of " + std::to_string(ranks) +
                                " ranks, got " + std::to_string(device_of_rank.size()));
  }
  for (std::size_t rank = 0; rank < device_of_rank.size(); ++rank) {
    const std::uint32_t device = device_of_rank[rank];
    if (device >= network.devices) {
      throw std::invalid_argument("rank " + std::to_string(rank) + ": device " +
                                  std::to_string(device) + " does not exist, there are " +
                                  std::to_string(network.devices));
    }
  }
}

} // namespace toposeat
