// SPDX-License-Identifier: MIT OR Apache-2.0
#include "small_sum.hpp"

#include <algorithm>
#include <bit>

namespace toposeat {
namespace {

SmallTable of_ranks(const Matrix &flow, const std::vector<std::uint32_t> &order) {
  SmallTable table{};
  for (std::size_t p = 0; p < order.size(); ++p) {
    for (std::size_t q = 0; q < order.size(); ++q) {
      if (order[p] < flow.n && order[q] < flow.n) // others stand in for none
        table[p][q] = flow(order[p], order[q]);
    }
  }
  return table;
}

SmallTable of_devices(const Matrix &distance) {
  SmallTable table{};
  for (std::size_t a = 0; a < distance.n; ++a) {
    for (std::size_t b = 0; b < distance.n; ++b)
      table[a][b] = distance(a, b);
  }
  return table;
}

FourDevices four_of(std::uint32_t set) {
  FourDevices devices{};
  for (std::size_t count = 0; set != 0; set &= set - 1)
    devices[count++] = static_cast<std::uint32_t>(std::countr_zero(set));
  return devices;
}

} // namespace

SmallSum::SmallSum(const Network &network, const SmallTable &bytes, std::size_t ranks)
    : ranks_(ranks), own_(std::make_unique<OwnLinks>(network)), partial_(*own_, bytes, ranks),
      exact_(std::in_place, *own_, bytes, ranks) {}

SmallSum::SmallSum(const Qap &qap, const std::vector<std::uint32_t> &order)
    : ranks_(order.size()),
      partial_(of_devices(qap.distance), of_ranks(qap.flow, order), of_devices(qap.distance2),
               of_ranks(qap.flow2, order), order.size()) {}

double SmallSum::bound(std::size_t depth, std::uint32_t device, std::uint32_t open) {
  if (depth + 1 + last_ranks == ranks_) {
    Ways &ways = bounds_[device];
    ways = partial_.of_ways(device, four_of(open));
    return *std::min_element(ways.begin(), ways.end());
  }
  return partial_.bound(depth, device, open);
}

void SmallSum::place(std::size_t depth, std::uint32_t device) {
  latest_ = device;
  partial_.place(depth, device);
  if (exact_)
    exact_->place(depth, device);
}

Ways SmallSum::of_ways(const FourDevices &devices) {
  Ways sums = bounds_[latest_];
  if (exact_)
    exact_->of_ways(devices, sums);
  return sums;
}

} // namespace toposeat
