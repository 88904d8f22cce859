// SPDX-License-Identifier: MIT OR Apache-2.0
#include "few/small_costs.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "base/wide.hpp"

namespace toposeat {
namespace {

constexpr std::size_t width = SmallCosts::width;

/// Ranks that talk or are bound to a device, pinned ones first, then always the one with most
/// traffic to those before it; all others after them if these are more than four.
std::vector<std::uint32_t> placing_order(const Qap &qap) {
  const auto weight = [&](std::size_t r, std::size_t s) {
    const double second = qap.has_second_term() ? qap.flow2(r, s) + qap.flow2(s, r) : 0;
    return qap.flow(r, s) + qap.flow(s, r) + second;
  };
  std::vector<std::uint32_t> order;
  std::vector<std::uint32_t> left;
  std::vector<double> attached(qap.size(), 0);
  for (std::uint32_t r = 0; r < qap.active; ++r) {
    left.push_back(r);
    for (std::size_t s = 0; s < qap.active; ++s)
      attached[r] += 1e-6 * weight(r, s); // decides until something is placed, then breaks ties
  }
  while (!left.empty()) {
    const auto next = std::max_element(left.begin(), left.end(), [&](auto a, auto b) {
      return std::pair(!qap.free_rank(a), attached[a]) < std::pair(!qap.free_rank(b), attached[b]);
    });
    order.push_back(*next);
    left.erase(next);
    for (const std::uint32_t r : left)
      attached[r] += weight(r, order.back());
  }
  // The last four are seated at once: silent ranks take what devices the others leave.
  for (std::uint32_t r = static_cast<std::uint32_t>(qap.active);
       order.size() > last_ranks && r < qap.size(); ++r)
    order.push_back(r);
  return order;
}

/// Smallest sums of products of a falling list of flows with the distances from each device.
class LeastProducts {
public:
  explicit LeastProducts(const Matrix &distance) : rising_(distance.n) {
    for (std::size_t a = 0; a < distance.n; ++a) {
      for (std::size_t b = 0; b < distance.n; ++b) {
        if (a != b)
          rising_[a].push_back(distance(a, b));
      }
      std::sort(rising_[a].begin(), rising_[a].end());
    }
  }

  void add_to(DeviceLine &line, const std::vector<double> &falling) const {
    for (std::size_t a = 0; a < rising_.size(); ++a) {
      for (std::size_t i = 0; i < falling.size(); ++i)
        line[a] += falling[i] * rising_[a][i];
    }
  }

private:
  std::vector<std::vector<double>> rising_;
};

/// The ranks that are left, by their place in the order, and the device taken last.
struct Rest {
  std::size_t first;
  std::size_t end;
  std::size_t device;
};

/// Fills `next` for the ranks left once one is placed: their cost to those placed, by device.
/// `pairs[p]`: their cost to the one placed now, by its device; `ahead`: see SmallCosts. Returns a
/// bound of what they add.
TOPOSEAT_WIDE double add_pairs(const Rest &rest, const DeviceLine *linear, const SmallTable *pairs,
                               const DeviceLine *ahead, DeviceLine *next) {
  double bound = 0;
  for (std::size_t p = rest.first; p < rest.end; ++p) {
    const double *pair = pairs[p][rest.device].data();
    const double *before = linear[p].data();
    const double *others = ahead[p].data();
    double now[width];
    double whole[width];
    for (std::size_t d = 0; d < width; ++d) {
      now[d] = before[d] + pair[d];
      whole[d] = now[d] + others[d];
    }
    now[rest.device] = whole[rest.device] = unlimited;
    for (std::size_t d = 0; d < width; ++d)
      next[p][d] = now[d];
    double low[4];
    for (std::size_t d = 0; d < 4; ++d)
      low[d] = whole[d] < whole[d + 4] ? whole[d] : whole[d + 4];
    bound += std::min(std::min(low[0], low[1]), std::min(low[2], low[3]));
  }
  return bound;
}

} // namespace

SmallCosts::SmallCosts(const Qap &original)
    : original_(original), prepared_(original), qap_(prepared_.qap), order_(placing_order(qap_)) {
  fill_pairs();
  fill_ahead();
  if (order_.size() > last_ranks) {
    add_product(qap_.flow, qap_.distance);
    if (qap_.has_second_term())
      add_product(qap_.flow2, qap_.distance2);
  }
}

void SmallCosts::add_product(const Matrix &flow, const Matrix &distance) {
  SmallTable by_place{};
  SmallTable by_device{};
  for (std::size_t p = 0; p < order_.size(); ++p) {
    for (std::size_t q = 0; q < order_.size(); ++q)
      by_place[p][q] = flow(order_[p], order_[q]);
  }
  for (std::size_t a = 0; a < distance.n; ++a) {
    for (std::size_t b = 0; b < distance.n; ++b)
      by_device[a][b] = distance(a, b);
  }
  products_.push_back({by_device, bytes_by_seats(by_place, order_.size() - last_ranks)});
}

SmallTable SmallCosts::nothing_placed() const {
  SmallTable linear{};
  for (std::size_t p = 0; p < order_.size(); ++p) {
    for (std::size_t d = 0; d < width; ++d)
      linear[p][d] = d < qap_.size() && qap_.may_use(order_[p], d) ? 0 : unlimited;
  }
  return linear;
}

double SmallCosts::place(std::size_t depth, std::size_t device, const SmallTable &linear,
                         SmallTable &next) const {
  return add_pairs({depth + 1, order_.size(), device}, linear.data(), pair_[depth].data(),
                   ahead_[depth + 1].data(), next.data());
}

Ways SmallCosts::of_ways(double placed, const SmallTable &linear, const FourDevices &devices) {
  return kernels_.one_sum(placed, linear, order_.size() - last_ranks, devices, among(devices));
}

FourDevices SmallCosts::left_by(const Devices &placed) const {
  std::uint32_t left = (1U << qap_.size()) - 1;
  for (std::size_t p = 0; p + last_ranks < order_.size(); ++p)
    left &= ~(1U << placed[p]);
  return four_of(left);
}

Assignment SmallCosts::whole(const Devices &devices) const {
  Assignment all(qap_.size());
  std::uint32_t taken = 0;
  for (std::size_t p = 0; p < order_.size(); ++p) {
    all[order_[p]] = devices[p];
    taken |= 1U << devices[p];
  }
  for (std::size_t r = qap_.active; r < qap_.size() && order_.size() < qap_.size(); ++r) {
    all[r] = static_cast<std::uint32_t>(std::countr_one(taken));
    taken |= 1U << all[r];
  }
  return all;
}

void SmallCosts::fill_pairs() {
  for (std::size_t p = 0; p < order_.size(); ++p) {
    for (std::size_t q = p + 1; q < order_.size(); ++q) {
      for (std::size_t a = 0; a < qap_.size(); ++a) {
        for (std::size_t b = 0; b < qap_.size(); ++b)
          pair_[p][q][a][b] = qap_.pair_cost(order_[p], order_[q], a, b) +
                              qap_.pair_cost(order_[q], order_[p], b, a);
      }
    }
  }
}

void SmallCosts::fill_ahead() {
  const LeastProducts first(qap_.distance);
  const LeastProducts second(qap_.distance2);
  for (std::size_t k = 0; k < order_.size(); ++k) {
    for (std::size_t p = k; p < order_.size(); ++p) {
      ahead_[k][p].fill(0);
      first.add_to(ahead_[k][p], flows_to(qap_.flow, p, k));
      if (qap_.has_second_term())
        second.add_to(ahead_[k][p], flows_to(qap_.flow2, p, k));
    }
  }
}

std::vector<double> SmallCosts::flows_to(const Matrix &flow, std::size_t p,
                                         std::size_t first) const {
  std::vector<double> flows;
  for (std::size_t q = first; q < order_.size(); ++q) {
    if (q != p)
      flows.push_back(flow(order_[p], order_[q]));
  }
  std::sort(flows.begin(), flows.end(), std::greater<>());
  return flows;
}

/// What the last four cost among themselves.
const Ways &SmallCosts::among(const FourDevices &devices) {
  const std::size_t number = number_of(devices);
  Ways &among = among_[number];
  if (known_.test(number))
    return among;
  known_.set(number);
  for (const Product &each : products_)
    kernels_.add_costs(each.distance, each.flow, devices, among);
  return among;
}

} // namespace toposeat
