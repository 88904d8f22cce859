// SPDX-License-Identifier: MIT OR Apache-2.0
#include "loads/partial_mean.hpp"

#include <algorithm>
#include <functional>

#include "base/wide.hpp"

namespace toposeat {
namespace {

/// next = here + sent * to + received * from.
TOPOSEAT_WIDE void add_pair(double *next, const double *here, double sent, const double *to,
                            double received, const double *from, std::size_t n) {
  for (std::size_t a = 0; a < n; ++a)
    next[a] = here[a] + sent * to[a] + received * from[a];
}

/// Least entry of the sum that `add_pair` makes, with two more lines.
TOPOSEAT_WIDE double least_with_pair(const double *here, double sent, const double *to,
                                     double received, const double *from, const double *ahead,
                                     const double *blocked, std::size_t n) {
  double least[4] = {unlimited, unlimited, unlimited, unlimited};
  std::size_t a = 0;
  for (; a + 4 <= n; a += 4) {
    for (std::size_t k = 0; k < 4; ++k) {
      const std::size_t d = a + k;
      const double value = here[d] + sent * to[d] + received * from[d] + ahead[d] + blocked[d];
      least[k] = value < least[k] ? value : least[k];
    }
  }
  for (; a < n; ++a) {
    const double value = here[a] + sent * to[a] + received * from[a] + ahead[a] + blocked[a];
    least[0] = value < least[0] ? value : least[0];
  }
  return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
}

} // namespace

PartialMean::PartialMean(const LinkMean &mean, const RankTraffic &traffic,
                         const std::vector<std::uint32_t> &order)
    : devices_(mean.n), order_(order.size()), to_(mean.n), from_(mean), sends_(order.size()),
      placed_(order_ + 1, 0.0), linear_((order_ + 1) * order_ * devices_, 0.0),
      ahead_((order_ + 1) * order_ * devices_, 0.0), blocked_(devices_, 0.0),
      device_of_(order_, 0) {
  for (std::size_t d = 0; d < devices_; ++d) {
    for (std::size_t a = 0; a < devices_; ++a)
      to_(d, a) = mean(a, d);
  }
  std::vector<std::size_t> place(traffic.ranks, order_);
  for (std::size_t p = 0; p < order_; ++p)
    place[order[p]] = p;
  for (const Flow &flow : traffic.flows) {
    if (place[flow.source] < order_ && place[flow.target] < order_)
      sends_(place[flow.source], place[flow.target]) += flow.bytes;
  }
  fill_ahead();
}

void PartialMean::fill_ahead() {
  std::vector<std::vector<double>> rising(devices_);
  for (std::size_t a = 0; a < devices_; ++a) {
    for (std::size_t b = 0; b < devices_; ++b) {
      if (a != b)
        rising[a].push_back(from_(a, b));
    }
    std::sort(rising[a].begin(), rising[a].end());
  }
  std::vector<double> falling;
  for (std::size_t depth = 0; depth < order_; ++depth) {
    for (std::size_t p = depth; p < order_; ++p) {
      falling.clear();
      for (std::size_t q = depth; q < order_; ++q) {
        if (q != p && sends_(p, q) > 0)
          falling.push_back(sends_(p, q));
      }
      std::sort(falling.begin(), falling.end(), std::greater<>());
      double *line = ahead_.data() + (depth * order_ + p) * devices_;
      for (std::size_t a = 0; a < devices_; ++a) {
        for (std::size_t i = 0; i < falling.size(); ++i)
          line[a] += falling[i] * rising[a][i];
      }
    }
  }
}

double PartialMean::bound_with(std::uint32_t device) const {
  double bound = placed_[depth_] + linear(depth_, depth_)[device];
  for (std::size_t p = depth_ + 1; p < order_; ++p) {
    bound +=
        least_with_pair(linear(depth_, p), sends_(p, depth_), to_.row(device), sends_(depth_, p),
                        from_.row(device), ahead(depth_ + 1, p), blocked_.data(), devices_);
  }
  return bound;
}

void PartialMean::place(std::uint32_t device) {
  placed_[depth_ + 1] = placed_[depth_] + linear(depth_, depth_)[device];
  for (std::size_t p = depth_ + 1; p < order_; ++p) {
    add_pair(linear(depth_ + 1, p), linear(depth_, p), sends_(p, depth_), to_.row(device),
             sends_(depth_, p), from_.row(device), devices_);
  }
  device_of_[depth_++] = device;
  blocked_[device] = unlimited;
}

void PartialMean::take_back() { blocked_[device_of_[--depth_]] = 0; }

} // namespace toposeat
