// SPDX-License-Identifier: MIT OR Apache-2.0
#include "few/small_sum.hpp"

namespace toposeat {

SmallSum::SmallSum(const Network &network, const SmallTable &bytes, std::size_t ranks)
    : ranks_(ranks), own_(network), partial_(own_, bytes, ranks), exact_(own_, bytes, ranks) {}

double SmallSum::bound(std::size_t depth, std::uint32_t device, std::uint32_t open) {
  if (depth + 1 + last_ranks == ranks_) {
    Ways &ways = bounds_[device];
    ways = partial_.of_ways(device, four_of(open));
    return least_of(ways);
  }
  return partial_.bound(depth, device, open);
}

void SmallSum::place(std::size_t depth, std::uint32_t device) {
  latest_ = device;
  partial_.place(depth, device);
  exact_.place(depth, device);
}

Ways SmallSum::of_ways(const FourDevices &devices) {
  Ways sums = bounds_[latest_];
  exact_.of_ways(devices, sums);
  return sums;
}

} // namespace toposeat
